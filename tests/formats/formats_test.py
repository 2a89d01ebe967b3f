#!/usr/bin/env python3
"""Foreign formats through the program: read from an independent writer, rebuilt by an independent reader.

Usage: formats_test.py PROGRAM [unittest arguments]
"""
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "cli")]
import foreign_models
import foreign_reader
import foreign_writer
import safetensors_file

PROGRAM = None
OK, USAGE, NOT_FOUND, CORRUPT, STALE, NOT_SUPPORTED = 0, 2, 3, 4, 5, 11
SEEDS = (1, 2, 3, 4, 5)
TRL = ("trl-v1", "trl-v3:raw", "trl-v3:gap_delta")
HF = ("hf-delta-dir:overwrite", "hf-delta-dir:xor")


def read_bytes(path):
    with open(path, "rb") as f:
        return f.read()


def write_bytes(path, raw):
    with open(path, "wb") as f:
        f.write(raw)


def kind_of(choice):
    return "mixed" if choice.startswith("hf") else "bf16"


def as_dict(model):
    return {name: (dtype, shape, raw) for name, dtype, shape, raw in model}


class Formats(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="pulseloco-formats-")
        self.addCleanup(shutil.rmtree, self.dir, True)

    def path(self, *parts):
        return os.path.join(self.dir, *parts)

    def run_program(self, *args, expect=OK):
        result = subprocess.run([PROGRAM, *args], capture_output=True, text=True, timeout=120, cwd=self.dir)
        if expect is not None:
            self.assertEqual(result.returncode, expect, f"{args}\n{result.stdout}\n{result.stderr}")
        if result.returncode != OK:
            errors = [line for line in result.stderr.splitlines() if line.startswith("pulseloco: ")]
            self.assertEqual(len(errors), 1, result.stderr)
            self.assertEqual(result.stdout, "")
        return result

    def foreign(self, choice, seed=1, name="foreign", versions=4):
        """Writes a chain of another system; returns (folder, states, extra arguments, number of states[0])."""
        states = foreign_models.chain(kind_of(choice), seed, versions)
        foreign_writer.write(self.path(name), states, choice)
        if choice.startswith("hf"):
            return self.path(name), states, ["--base", self.path(name, "base")], 0
        return self.path(name), states, [], 1

    def publish(self, bucket, states, *extra):
        for i, state in enumerate(states):
            safetensors_file.write(self.path("model.safetensors"), state)
            self.run_program("publish", "--bucket", bucket, "--model", self.path("model.safetensors"), *extra)

    def assert_model(self, path, model):
        self.assertEqual(safetensors_file.read(path)[1], as_dict(model))

    # --- what others write

    def test_every_version_that_others_write_is_read_bit_for_bit(self):
        for choice in TRL + HF:
            for seed in SEEDS:
                with self.subTest(choice=choice, seed=seed):
                    folder, states, extra, _ = self.foreign(choice, seed, f"{choice}-{seed}")
                    out = self.path(f"out-{choice}-{seed}")
                    self.run_program("convert", folder, "--from", choice.split(":")[0], "--to", "hf-delta-dir", "-o",
                                     out, *extra)
                    base = as_dict(states[0]) if extra else None  # version 0 is never written
                    rebuilt = [model for _, model in foreign_reader.rebuild(out, "hf-delta-dir", base)]
                    self.assertEqual(rebuilt, [as_dict(state) for state in (states[1:] if extra else states)])

    def test_followers_rebuild_what_others_write(self):
        for choice in TRL + HF:
            with self.subTest(choice=choice):
                folder, states, extra, first = self.foreign(choice, 4, choice, versions=3)
                out = self.path(f"{choice}.safetensors")
                follow = ["follow", "--format", choice.split(":")[0], "--bucket", folder, "--out", out, *extra]
                self.run_program(*follow, "--version", str(first + 1))
                self.assert_model(out, states[1])
                report = json.loads(self.run_program(*follow, "--once", "--json").stdout)
                self.assertEqual((report["version"], report["changed"]), (f"1.{first + 2}", True))
                self.assert_model(out, states[2])
                self.assertFalse(json.loads(self.run_program(*follow, "--once", "--json").stdout)["changed"])
                self.run_program(*follow, "--version", str(first + 1), expect=STALE)  # never back

    def test_foreign_chains_become_native_versions(self):
        for choice in ("trl-v3:gap_delta", "hf-delta-dir:xor"):
            with self.subTest(choice=choice):
                folder, states, extra, _ = self.foreign(choice, 5, choice)
                bucket = self.path(f"bucket-{choice}")
                self.run_program("convert", folder, "--from", choice.split(":")[0], "--to", "pulse", "-o", bucket,
                                 *extra)
                self.run_program("verify", bucket)
                for number, state in enumerate(states, 1):
                    out = self.path(f"{choice}-{number}.safetensors")
                    self.run_program("follow", "--bucket", bucket, "--out", out, "--version", str(number))
                    self.assert_model(out, state)

    def test_checksums_of_either_kind_are_kept_and_others_refused(self):
        states = foreign_models.chain("mixed", 5)
        for kind, shards in (("adler32", 3), ("xxh3-128", 1)):
            with self.subTest(kind=kind):
                folder = self.path(f"{kind}-{shards}")
                foreign_writer.write_hf(folder, states, "overwrite", checksum=kind, shards=shards)
                out = self.path(f"{kind}-{shards}.safetensors")
                self.run_program("follow", "--format", "hf-delta-dir", "--bucket", folder, "--base",
                                 os.path.join(folder, "base"), "--out", out, "--once")
                self.assert_model(out, states[-1])
                base = self.path(f"wrong-{kind}.safetensors")  # one bit off: the writer's sums tell
                safetensors_file.write(base, [(n, d, s, raw[:-1] + bytes([raw[-1] ^ 1]) if raw else raw)
                                              for n, d, s, raw in states[0]])
                self.run_program("follow", "--format", "hf-delta-dir", "--bucket", folder, "--base", base, "--out",
                                 self.path("never.safetensors"), "--once", expect=CORRUPT)
                self.assertFalse(os.path.exists(self.path("never.safetensors")))
        self.edit_index(self.path("xxh3-128-1", "weight_v000001"), checksum_format="blake3")
        error = self.run_program("convert", self.path("xxh3-128-1"), "--from", "hf-delta-dir", "--base",
                                 self.path("xxh3-128-1", "base"), "--to", "pulse", "-o", self.path("b"),
                                 expect=NOT_SUPPORTED).stderr
        self.assertIn("blake3", error)

    def edit_index(self, folder, **metadata):
        path = os.path.join(folder, "model.safetensors.index.json")
        with open(path, encoding="utf-8") as f:
            index = json.load(f)
        index["metadata"].update(metadata)
        with open(path, "w", encoding="utf-8") as f:
            json.dump(index, f)

    def test_nvcomp_is_refused_and_says_what_to_do(self):
        states = foreign_models.chain("bf16", 1)
        foreign_writer.write_trl(self.path("f"), states, "trl-v3:raw")
        path = self.path("f", "deltas", "step_000002.safetensors")
        metadata, tensors = safetensors_file.read(path)
        metadata["encoding"] = "nvcomp_cascaded"
        safetensors_file.write(path, [(n, *t) for n, t in tensors.items()], metadata)
        error = self.run_program("follow", "--format", "trl-v3", "--bucket", self.path("f"), "--out", self.path("o"),
                                 "--once", expect=NOT_SUPPORTED).stderr
        self.assertIn("nvcomp_cascaded", error)
        self.assertIn("gap_delta", error)

    def test_a_full_version_or_anchor_bridges_a_gap(self):
        states = foreign_models.chain("bf16", 3, 6)
        foreign_writer.write_trl(self.path("trl"), states, "trl-v1", anchors=(1, 4))
        os.remove(self.path("trl", "deltas", "step_000003.safetensors"))
        out = self.path("t.safetensors")
        follow = ["follow", "--format", "trl-v1", "--bucket", self.path("trl"), "--out", out]
        self.run_program(*follow, "--version", "2")
        self.run_program(*follow, "--version", "3", expect=NOT_FOUND)
        self.assert_model(out, states[1])
        self.run_program(*follow, "--once")
        self.assert_model(out, states[5])

        states = foreign_models.chain("mixed", 3, 6)
        foreign_writer.write_hf(self.path("hf"), states, "xor", full=(4,))
        out = self.path("h.safetensors")
        follow = ["follow", "--format", "hf-delta-dir", "--bucket", self.path("hf"), "--out", out]
        self.run_program(*follow, "--version", "2", expect=NOT_FOUND)  # without a base
        self.run_program(*follow, "--version", "2", "--base", self.path("hf", "base"))
        shutil.rmtree(self.path("hf", "weight_v000003"))
        self.run_program(*follow, "--once")
        self.assert_model(out, states[5])

    def test_a_damaged_change_is_gone_around_by_a_full_version(self):
        states = foreign_models.chain("mixed", 4, 6)
        foreign_writer.write_hf(self.path("hf"), states, "overwrite", full=(4,))
        out = self.path("h.safetensors")
        follow = ["follow", "--format", "hf-delta-dir", "--bucket", self.path("hf"), "--out", out, "--base",
                  self.path("hf", "base")]
        self.run_program(*follow, "--version", "2")
        path = self.path("hf", "weight_v000003", "model-00001-of-00001.safetensors")
        raw = bytearray(read_bytes(path))
        raw[-3] ^= 0x40
        write_bytes(path, raw)
        self.run_program(*follow, "--version", "3", expect=CORRUPT)
        self.assert_model(out, states[2])
        self.run_program(*follow, "--once")
        self.assert_model(out, states[5])

    def test_xor_is_applied_once_whatever_is_run_again(self):
        folder, states, extra, _ = self.foreign("hf-delta-dir:xor", 9, versions=5)
        out = self.path("o.safetensors")
        follow = ["follow", "--format", "hf-delta-dir", "--bucket", folder, "--out", out, *extra]
        for number in (1, 1, 2, 2, 3):
            self.run_program(*follow, "--version", str(number))
            self.assert_model(out, states[number])
        # What lies there is no version any more: it is found out and made anew, from the base.
        raw = bytearray(read_bytes(out))
        raw[-1] ^= 1
        write_bytes(out, raw)
        self.run_program(*follow, "--once")
        self.assert_model(out, states[4])

    def test_trl_takes_from_the_base_what_it_does_not_carry(self):
        states = foreign_models.chain("bf16", 2)
        norm = ("norm", "F32", [2], b"\0\1\2\3\4\5\6\7")
        bucket = self.path("bucket")
        self.publish(bucket, [state + [norm] for state in states])
        self.run_program("convert", bucket, "--to", "trl-v3", "-o", self.path("trl"))
        follow = ["follow", "--format", "trl-v3", "--bucket", self.path("trl"), "--out", self.path("o"), "--once"]
        self.assertIn("norm", self.run_program(*follow, expect=STALE).stderr)
        safetensors_file.write(self.path("base"), states[0] + [norm])
        self.run_program(*follow, "--base", self.path("base"))
        self.assert_model(self.path("o"), states[-1] + [norm])

    # --- what we write

    def test_an_independent_reader_rebuilds_what_convert_writes(self):
        for kind in ("bf16", "mixed"):
            for seed in SEEDS:
                states = foreign_models.chain(kind, seed, 3)
                bucket = self.path(f"{kind}-{seed}")
                self.publish(bucket, states)
                for choice in (TRL if kind == "bf16" else ()) + HF:
                    with self.subTest(choice=choice, kind=kind, seed=seed):
                        folder = self.path(f"{choice}-{kind}-{seed}")
                        self.run_program("convert", bucket, "--to", choice, "-o", folder)
                        rebuilt = list(foreign_reader.rebuild(folder, choice))
                        self.assertEqual([number for number, _ in rebuilt], [1, 2, 3])
                        for (_, model), state in zip(rebuilt, states):
                            self.assertEqual(model, as_dict(state))
                self.assertFalse([name for name in os.listdir(self.dir) if name.endswith(".partial")])

    def test_an_independent_reader_rebuilds_what_publish_writes_beside(self):
        states = foreign_models.chain("bf16", 11, 4)
        bucket = self.path("bucket")
        also = [text for choice in TRL + HF for text in ("--also", f"{choice}=copies/{choice.replace(':', '-')}")]
        self.publish(bucket, states, *also, "--state", self.path("state"))
        self.run_program("verify", bucket)
        for choice in TRL + HF:
            with self.subTest(choice=choice):
                folder = os.path.join(bucket, "copies", choice.replace(":", "-"))
                for path, _, files in os.walk(folder):  # the file store's locks
                    for name in files:
                        if name.startswith(".tmp"):
                            os.remove(os.path.join(path, name))
                rebuilt = list(foreign_reader.rebuild(folder, choice))
                self.assertEqual([number for number, _ in rebuilt], [1, 2, 3, 4])
                for (_, model), state in zip(rebuilt, states):
                    self.assertEqual(model, as_dict(state))

    def test_publish_makes_good_with_a_full_version_what_it_skipped(self):
        states = foreign_models.chain("bf16", 12, 4)
        bucket = self.path("bucket")
        self.publish(bucket, states[:1], "--also", "hf-delta-dir")
        self.publish(bucket, states[1:2])
        self.publish(bucket, states[2:], "--also", "hf-delta-dir")
        out = self.path("o.safetensors")
        self.run_program("follow", "--format", "hf-delta-dir", "--bucket", bucket, "--prefix", "hf-delta-dir/main",
                         "--out", out, "--once")
        self.assert_model(out, states[-1])

    def test_formats_become_one_another(self):
        states = foreign_models.chain("bf16", 13)
        for source, target in (("trl-v1", "trl-v3:gap_delta"), ("trl-v3:raw", "trl-v1"),
                               ("hf-delta-dir:xor", "trl-v3:raw"), ("trl-v3:gap_delta", "hf-delta-dir:xor")):
            with self.subTest(source=source, target=target):
                foreign_writer.write(self.path(f"{source}-{target}"), states, source)
                extra = ["--base", self.path(f"{source}-{target}", "base")] if source in HF else []
                out = self.path(f"out-{source}-{target}")
                self.run_program("convert", self.path(f"{source}-{target}"), "--from", source.split(":")[0], "--to",
                                 target, "-o", out, *extra)
                rebuilt = [model for _, model in foreign_reader.rebuild(out, target)]
                self.assertEqual(rebuilt, [as_dict(state) for state in states])

    # --- what is refused

    def test_what_trl_can_not_carry_is_named_and_nothing_is_written(self):
        states = foreign_models.chain("mixed", 1)
        bucket = self.path("bucket")
        self.publish(bucket, states)
        error = self.run_program("convert", bucket, "--to", "trl-v1", "-o", self.path("trl"),
                                 expect=NOT_SUPPORTED).stderr
        self.assertIn('"b.f32"', error)
        self.assertFalse(os.path.exists(self.path("trl")))
        self.assertFalse(os.path.exists(self.path("trl.partial")))

        other = self.path("other")
        self.publish(other, states[:1], "--also", "trl-v3")
        safetensors_file.write(self.path("m"), states[1])
        error = self.run_program("publish", "--bucket", other, "--model", self.path("m"), "--also", "trl-v3",
                                 expect=NOT_SUPPORTED).stderr
        self.assertIn('"b.f32"', error)
        self.assertEqual(len(json.loads(self.run_program("inspect", other, "--json").stdout)[0]["versions"]), 1)

    def test_wrong_usage_is_told_apart(self):
        bucket = self.path("bucket")
        self.publish(bucket, foreign_models.chain("bf16", 1)[:2])
        os.mkdir(self.path("there"))
        with open(self.path("there", "x"), "w", encoding="utf-8") as f:
            f.write("x")
        for extra, code in ((["--to", "trl-v9", "-o", "o"], USAGE), (["--to", "trl-v1:raw", "-o", "o"], USAGE),
                            (["--to", "pulse", "-o", "o"], USAGE), (["--to", "trl-v1", "-o", "there"], USAGE),
                            (["--to", "trl-v1", "-o", "o", "--run", "none"], NOT_FOUND),
                            (["--from", "trl-v1", "--to", "pulse", "-o", "o"], NOT_FOUND)):
            self.run_program("convert", bucket, *extra, expect=code)
        self.run_program("follow", "--bucket", bucket, "--out", "o", "--base", "x", expect=USAGE)
        self.run_program("publish", "--bucket", bucket, "--model", "x", "--also", "trl-v1=../up", expect=NOT_FOUND)
        self.assertEqual(sorted(os.listdir(self.dir)), ["bucket", "model.safetensors", "there"])

    def test_no_flipped_bit_gives_other_weights(self):
        rng = random.Random(1)
        states = foreign_models.chain("bf16", 14, 3)
        bucket = self.path("bucket")
        self.publish(bucket, states)
        for choice in ("trl-v1", "trl-v3:gap_delta") + HF:
            good = self.path(choice)
            self.run_program("convert", bucket, "--to", choice, "-o", good)
            files = [os.path.join(path, name) for path, _, names in os.walk(good) for name in names]
            for _ in range(25):
                path = rng.choice(files)
                raw = bytearray(read_bytes(path))
                saved = bytes(raw)
                kind = rng.randrange(3)
                if kind == 0:
                    del raw[rng.randrange(len(raw)):]
                else:
                    raw[rng.randrange(min(len(raw), 1500) if kind == 1 else len(raw))] ^= 1 << rng.randrange(8)
                write_bytes(path, raw)
                out = self.path("flip.safetensors")
                run = self.run_program("follow", "--format", choice.split(":")[0], "--bucket", good, "--out", out,
                                       "--version", "3", expect=None)
                self.assertIn(run.returncode, (OK, NOT_FOUND, CORRUPT, STALE, NOT_SUPPORTED), run.stderr)
                if run.returncode == OK:  # what was flipped says nothing, the sparsity for one
                    self.assert_model(out, states[-1])
                write_bytes(path, saved)
                for name in [n for n in os.listdir(self.dir) if n.startswith("flip.")]:
                    os.remove(self.path(name))


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
