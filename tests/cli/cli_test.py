#!/usr/bin/env python3
"""The command line as a user meets it: real processes, real files, exit codes and one-line errors.

Usage: cli_test.py PROGRAM [unittest arguments]
"""
import json
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import safetensors_file

PROGRAM = None
OK, USAGE, NOT_FOUND, CORRUPT, STALE, UNREACHABLE, LOST_RACE = 0, 2, 3, 4, 5, 6, 7


def read_bytes(path):
    with open(path, "rb") as f:
        return f.read()


def write_bytes(path, raw):
    with open(path, "wb") as f:
        f.write(raw)


def model(rng, elements=5000):
    """A small model with BF16 and FP32 tensors, an empty one and a scalar."""
    words = struct.pack(f"<{elements}H", *[0x3C00 + rng.randrange(256) for _ in range(elements)])
    norm = struct.pack("<8f", *[1 + rng.random() for _ in range(8)])
    return [("b.norm", "F32", [8], norm), ("d.scalar", "F32", [], struct.pack("<f", 0.5)),
            ("a.weight", "BF16", [elements], words), ("c.empty", "BF16", [0, 4], b"")]


def nudge(rng, tensors, share=0.01):
    out = []
    for name, dtype, shape, raw in tensors:
        if dtype == "BF16" and raw:
            words = list(struct.unpack(f"<{len(raw) // 2}H", raw))
            words = [(w + rng.choice((-1, 1))) & 0xFFFF if rng.random() < share else w for w in words]
            raw = struct.pack(f"<{len(words)}H", *words)
        out.append((name, dtype, shape, raw))
    return out


class CommandLine(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="pulseloco-cli-")
        self.addCleanup(shutil.rmtree, self.dir, True)
        self.rng = random.Random(1)

    def path(self, *parts):
        return os.path.join(self.dir, *parts)

    def run_program(self, *args, expect=OK, env=None):
        result = subprocess.run([PROGRAM, *args], capture_output=True, text=True, timeout=120,
                                cwd=self.dir, env={**os.environ, **(env or {})})
        self.assertEqual(result.returncode, expect, f"{args}\n{result.stdout}\n{result.stderr}")
        if expect != OK:
            errors = [line for line in result.stderr.splitlines() if line.startswith("pulseloco: ")]
            self.assertEqual(len(errors), 1, result.stderr)  # log lines may stand before it
        return result

    def write_model(self, name, tensors):
        safetensors_file.write(self.path(name), tensors)
        return self.path(name)

    def two_models(self):
        before = model(self.rng)
        return (self.write_model("a.safetensors", before),
                self.write_model("b.safetensors", nudge(self.rng, before)))

    # --- help and usage

    def test_every_command_explains_itself(self):
        top = self.run_program("--help").stdout
        for command in ("train", "evaluate", "report", "publish", "follow", "diff", "apply", "inspect",
                        "verify", "convert", "gc"):
            self.assertIn(command, top)
            self.assertIn("--help", self.run_program(command, "--help").stdout)
        self.assertRegex(self.run_program("--version").stdout, r"^pulseloco \d+\.\d+\.\d+")

    def test_wrong_usage_is_one_line_and_code_2(self):
        self.run_program(expect=USAGE)
        self.run_program("frobnicate", expect=USAGE)
        self.run_program("diff", "a", expect=USAGE)
        self.run_program("train", "x.yaml", "--progress", "perhaps", expect=USAGE)

    # --- diff and apply

    def test_apply_rebuilds_what_diff_saw(self):
        a, b = self.two_models()
        self.run_program("diff", a, b, "-o", self.path("p"))
        out = self.run_program("apply", a, self.path("p"), "-o", self.path("c.safetensors"), "--json")
        self.assertEqual(safetensors_file.read(b)[1], safetensors_file.read(self.path("c.safetensors"))[1])
        self.assertEqual(json.loads(out.stdout)["elements"], 5009)
        self.assertLess(os.path.getsize(self.path("p")), os.path.getsize(b) / 4)
        metadata, tensors = safetensors_file.read(self.path("p"))  # a valid safetensors file
        self.assertTrue(all(dtype == "U8" for dtype, _, _ in tensors.values()))

    def test_threads_change_no_byte(self):
        n = 9_000_000  # BF16 words: more than one cell of 16 MiB
        rest = model(self.rng, 1)
        words = bytearray(2 * n)
        words[0::2], words[1::2] = self.rng.randbytes(n), b"\x3c" * n
        a = self.write_model("a.safetensors", [("w", "BF16", [n], bytes(words)), *rest])
        for _ in range(90_000):
            words[2 * self.rng.randrange(n)] ^= 1
        b = self.write_model("b.safetensors", [("w", "BF16", [n], bytes(words)), *rest])
        for threads in ("1", "3"):
            self.run_program("diff", a, b, "-o", self.path(f"p{threads}"), "--threads", threads)
            self.run_program("apply", a, self.path(f"p{threads}"), "-o", self.path(f"c{threads}"),
                             "--threads", threads)
            for source in (a, b):
                self.run_program("publish", "--bucket", self.path(f"bucket{threads}"), "--model", source,
                                 "--codec", "small", "--threads", threads)
            self.run_program("follow", "--bucket", self.path(f"bucket{threads}"), "--once", "--out",
                             self.path(f"out{threads}"), "--threads", threads)
            self.run_program("verify", self.path(f"bucket{threads}"), "--threads", threads)
        self.assertEqual(read_bytes(self.path("p1")), read_bytes(self.path("p3")))
        self.assertEqual(read_bytes(self.path("c1")), read_bytes(self.path("c3")))
        for threads in ("1", "3"):  # its metadata names the version, which has a nonce
            self.assertEqual(safetensors_file.read(self.path(f"out{threads}"))[1], safetensors_file.read(b)[1])

    # --- benches

    def test_bench_codec_measures_weights_of_training_in_both_storage_regimes(self):
        write_bytes(self.path("run.yaml"), b"trainer:\n  kind: synthetic\n  elements: 300000\n")
        out = self.run_program("bench", "codec", "--train", "run.yaml", "--set", "adam.learning_rate=1e-6",
                               "--elements", "500000", "--repeats", "1", "--threads", "1", "--json")
        sets = {s["data"]: s for s in json.loads(out.stdout)}
        self.assertEqual(list(sets), ["trained-fp32-k1", "trained-fp32-k8", "trained-bf16-k1", "trained-bf16-k8"])
        for s in sets.values():
            self.assertGreaterEqual(s["elements"], 500000)
            small, raw = (next(r for r in s["rows"] if r["codec"] == c) for c in ("small", "int32 + bf16"))
            self.assertEqual(raw["bits_per_change"], 48)
            self.assertLess(small["over_bound"], 1.25)
        # More steps change more, and rounding after each step keeps all but the smallest weights.
        share = {name: s["changed_share"] for name, s in sets.items()}
        self.assertLess(share["trained-fp32-k1"], share["trained-fp32-k8"])
        self.assertLess(share["trained-bf16-k8"], share["trained-fp32-k8"] / 2)

    def test_a_damaged_patch_is_refused_and_leaves_nothing(self):
        a, b = self.two_models()
        self.run_program("diff", a, b, "-o", self.path("p"))
        good = read_bytes(self.path("p"))
        out = self.path("out.safetensors")
        for size in (0, 7, 8, 100, len(good) // 2, len(good) - 1):
            write_bytes(self.path("bad"), good[:size])
            self.run_program("apply", a, self.path("bad"), "-o", out, expect=CORRUPT)
        for at in self.rng.sample(range(len(good)), 40):
            flipped = bytearray(good)
            flipped[at] ^= 1 << self.rng.randrange(8)
            write_bytes(self.path("bad"), flipped)
            result = subprocess.run([PROGRAM, "apply", a, self.path("bad"), "-o", out],
                                    capture_output=True, text=True, timeout=60)
            if result.returncode == 0:  # a flip that changes nothing of what is rebuilt
                self.assertEqual(safetensors_file.read(out)[1], safetensors_file.read(b)[1])
                os.remove(out)
            else:
                self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)
        self.assertEqual([f for f in os.listdir(self.dir) if f.startswith("out")], [])

    def test_a_wrong_base_is_refused_before_anything_is_written(self):
        a, b = self.two_models()
        self.run_program("diff", a, b, "-o", self.path("p"))
        result = self.run_program("apply", b, self.path("p"), "-o", self.path("c"), expect=STALE)
        self.assertIn("base", result.stderr)
        self.assertFalse(os.path.exists(self.path("c")))

    def test_missing_and_foreign_files_are_named(self):
        a, _ = self.two_models()
        self.assertIn("nope", self.run_program("diff", a, "nope", "-o", "p", expect=NOT_FOUND).stderr)
        write_bytes(self.path("text"), b"not a checkpoint, but long enough to look like one")
        self.assertIn("text", self.run_program("diff", a, "text", "-o", "p", expect=CORRUPT).stderr)
        other = self.write_model("other.safetensors", [("z", "BF16", [1], b"\0\0")])
        self.assertIn("a.weight", self.run_program("diff", a, other, "-o", "p", expect=STALE).stderr)
        self.assertFalse(os.path.exists(self.path("p")))

    # --- bucket

    def publish(self, tensors, *extra, expect=OK):
        self.write_model("m.safetensors", tensors)
        return self.run_program("publish", "--bucket", "bucket", "--model", "m.safetensors", *extra,
                                "--json", expect=expect)

    def follow(self, *extra, expect=OK):
        return self.run_program("follow", "--bucket", "bucket", "--out", "copy.safetensors", "--once",
                                "--json", *extra, expect=expect)

    def test_a_follower_rebuilds_each_version_and_verify_agrees(self):
        tensors = model(self.rng)
        for state in ((), (), ("--state", "state"), ("--state", "state")):
            tensors = nudge(self.rng, tensors)
            published = json.loads(self.publish(tensors, *state).stdout)
            self.follow()
            self.assertEqual(safetensors_file.read(self.path("copy.safetensors"))[1],
                             {n: (d, s, r) for n, d, s, r in tensors})
        self.assertIn(published["digest"], self.run_program("inspect", "bucket").stdout)
        self.assertIn(published["digest"], self.run_program("inspect", "copy.safetensors").stdout)
        self.assertIn("4 versions", self.run_program("verify", "bucket").stdout)

    def test_a_damaged_patch_is_not_taken_for_a_checkpoint(self):
        tensors = model(self.rng)
        safetensors_file.write(self.path("a"), tensors)
        safetensors_file.write(self.path("b"), nudge(self.rng, tensors))
        self.run_program("diff", "a", "b", "-o", "patch")
        self.assertIn("delta", self.run_program("inspect", "patch").stdout)
        data = read_bytes(self.path("patch"))
        write_bytes(self.path("patch"), data.replace(b'"pulse.role":"delta"', b'"pulse.role":"dElta"'))
        self.assertIn("pulse.role", self.run_program("inspect", "patch", expect=CORRUPT).stderr)

    def test_tied_tensors_travel_once_and_stay_tied(self):
        words = struct.pack("<4000H", *[0x3C00 + self.rng.randrange(256) for _ in range(4000)])
        aliases = {"pulse.aliases": '{"lm_head":"embed"}'}
        for i in range(3):
            tensors = [("embed", "BF16", [4000], words), ("ids", "I64", [2], bytes(15) + bytes([i])),
                       ("scale", "F8_E4M3", [5], bytes(range(i, i + 5))), ("half", "F16", [2], b"abcd")]
            safetensors_file.write(self.path("m"), tensors, aliases)
            published = json.loads(self.run_program("publish", "--bucket", "bucket", "--model", "m", "--json").stdout)
            self.follow()
            metadata, read = safetensors_file.read(self.path("copy.safetensors"))
            self.assertEqual(read, {n: (d, s, r) for n, d, s, r in tensors})
            self.assertEqual(metadata["pulse.aliases"], aliases["pulse.aliases"])
            if i > 0:
                self.assertEqual(published["changed"], 1 + 5 + 1)  # "lm_head" is not a second change
            words = words[:-1] + bytes([words[-1] ^ 1])
        untied = [*tensors, ("lm_head", "BF16", [4000], words)]
        safetensors_file.write(self.path("m"), untied)
        self.run_program("publish", "--bucket", "bucket", "--model", "m", expect=STALE)

    def test_copies_in_other_formats_are_said_not_to_be_covered(self):
        tensors = model(self.rng)
        self.publish(tensors, "--also", "trl-v3")
        self.assertIn("not verified, as beside the runs: trl-v3/", self.run_program("verify", "bucket").stdout)
        self.assertIn("left alone, as beside the runs: trl-v3/", self.run_program("gc", "bucket").stdout)
        for command, key in (("verify", "not_verified"), ("gc", "left_alone")):
            said = json.loads(self.run_program(command, "bucket", "--json").stdout)
            self.assertEqual((said[0] if command == "verify" else said)[key], ["trl-v3/"])

    def test_the_publisher_that_loses_the_race_says_so(self):
        """One is stopped behind its takeover, another publishes, and the first goes on."""
        self.publish(model(self.rng, 1_000_000))

        def epoch():
            with open(self.path("bucket", "runs", "main", "HEAD")) as f:
                return json.load(f)["epoch"]

        def start():
            process = subprocess.Popen([PROGRAM, "publish", "--bucket", "bucket", "--model", "m.safetensors"],
                                       cwd=self.dir, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            self.addCleanup(process.stderr.close)
            return process

        for _ in range(20):  # the first may have been done before it was stopped
            before, first = epoch(), start()
            while epoch() == before and first.poll() is None:
                pass
            first.send_signal(signal.SIGSTOP)
            second = start()
            try:
                second.wait(timeout=2)
            except subprocess.TimeoutExpired:
                pass  # the first was stopped with the folder's lock in its hands
            first.send_signal(signal.SIGCONT)
            codes = {process.wait(timeout=60): process for process in (first, second)}
            self.assertIn(OK, codes)
            self.assertLessEqual(set(codes), {OK, LOST_RACE})
            if LOST_RACE in codes:
                break
        self.assertIn(LOST_RACE, codes, "they never met")
        err = codes[LOST_RACE].stderr.read()
        self.assertIn("another publisher", err)
        self.assertEqual(len(err.strip().splitlines()), 1, err)
        self.assertIn("0 problems", self.run_program("verify", "bucket").stdout)

    def test_a_store_that_does_not_answer_has_a_code_of_its_own(self):
        with socket.socket() as closed:  # bound and not listening: nobody answers there
            closed.bind(("127.0.0.1", 0))
            uri = f"http://127.0.0.1:{closed.getsockname()[1]}/bucket"
            err = self.run_program("follow", "--bucket", uri, "--out", "x", "--once", expect=UNREACHABLE).stderr
        self.assertIn("127.0.0.1", err)

    # --- several ranks

    def start_joint(self, *extra):
        environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return subprocess.Popen(
            ["mpirun", "-n", "3", "--oversubscribe", "--bind-to", "none", PROGRAM, "publish", "--joint", "--bucket",
             "bucket", "--model", "m.safetensors", *extra],
            cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)

    def joint(self, *extra, expect=OK):
        process = self.start_joint(*extra)
        out, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, expect, err)
        return out, err

    def test_several_ranks_publish_one_version(self):
        tensors = [(f"{n}{i}", d, s, r) for n, d, s, r in model(self.rng) for i in range(2)]
        for number in range(1, 4):
            tensors = nudge(self.rng, tensors)
            self.write_model("m.safetensors", tensors)
            out, _ = self.joint("--json", *(("--state", "state") if number > 1 else ()))
            self.assertEqual(json.loads(out)["version"].split(".")[1], str(number))
            self.follow()
            self.assertEqual(safetensors_file.read(self.path("copy.safetensors"))[1],
                             {n: (d, s, r) for n, d, s, r in tensors})
        objects = [f for _, _, files in os.walk(self.path("bucket")) for f in files if f.startswith("delta-")]
        self.assertEqual(sorted(objects), [f"delta-{rank:05}.safetensors" for rank in (0, 0, 1, 1, 2, 2)])
        self.assertIn("3 versions", self.run_program("verify", "bucket").stdout)
        _, err = self.joint("--also", "trl-v3", expect=USAGE)
        self.assertEqual([line for line in err.splitlines() if line.startswith("pulseloco: ")],
                         ["pulseloco: --also: other formats are written by one process"])

    def test_a_killed_rank_leaves_a_bucket_that_goes_on(self):
        tensors = [(f"{n}{i}", d, s, r) for n, d, s, r in model(self.rng, 150_000) for i in range(2)]
        self.write_model("m.safetensors", tensors)
        self.joint()
        for i in range(6):
            tensors = nudge(self.rng, tensors, 0.02)
            self.write_model("m.safetensors", tensors)
            process = self.start_joint()
            deadline = time.monotonic() + 60
            while not (ranks := self.ranks()) and process.poll() is None:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.002)  # other processes: there is nothing to wait on
            time.sleep(0.03 * i)
            try:
                os.kill(ranks[i % len(ranks)], signal.SIGKILL)
            except (IndexError, ProcessLookupError):
                pass  # it was done
            process.communicate(timeout=120)
            self.assertIn("0 problems", self.run_program("verify", "bucket").stdout)
        self.joint()
        self.follow()
        self.assertEqual(safetensors_file.read(self.path("copy.safetensors"))[1],
                         {n: (d, s, r) for n, d, s, r in tensors})

    def ranks(self):
        found = []
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{entry}/cmdline", "rb") as f:
                    ours = f.read().decode().split("\0")[0] == PROGRAM
                if ours and os.readlink(f"/proc/{entry}/cwd") == os.path.realpath(self.dir):
                    found.append(int(entry))
            except OSError:
                pass  # gone meanwhile
        return found

    def test_no_change_still_makes_a_version(self):
        tensors = model(self.rng)
        first = json.loads(self.publish(tensors).stdout)
        second = json.loads(self.publish(tensors).stdout)
        self.assertEqual(first["digest"], second["digest"])
        self.assertEqual(second["changed"], 0)

    def test_a_changed_schema_needs_an_anchor_and_says_so(self):
        tensors = model(self.rng)
        self.publish(tensors)
        renamed = [("a.renamed" if n == "a.weight" else n, d, s, r) for n, d, s, r in tensors]
        self.assertIn("anchor", self.publish(renamed, expect=STALE).stderr)
        self.publish(renamed, "--anchor")
        self.follow()

    def test_a_missing_bucket_is_named(self):
        result = self.run_program("follow", "--bucket", "no-such", "--out", "x", "--once", expect=NOT_FOUND)
        self.assertIn("no-such", result.stderr)
        self.run_program("verify", "no-such", expect=NOT_FOUND)
        self.assertFalse(os.path.exists(self.path("no-such")))

    def test_an_unsupported_bucket_is_said_to_be_so(self):
        self.run_program("verify", "gopher://x/y", expect=11)

    def test_a_place_that_can_not_be_written_is_named(self):
        self.publish(model(self.rng))
        a, b = self.two_models()
        self.run_program("diff", a, b, "-o", "patch")
        write_bytes(self.path("file"), b"")
        before = self.snapshot()
        for args in (("follow", "--bucket", "bucket", "--out", "file/x", "--once"),
                     ("publish", "--bucket", "file/x", "--model", a), ("diff", a, b, "-o", "file/x"),
                     ("apply", a, "patch", "-o", "file/x"),
                     ("publish", "--bucket", "bucket", "--model", b, "--state", "file/x")):
            result = subprocess.run([PROGRAM, *args], capture_output=True, text=True, cwd=self.dir, timeout=60)
            self.assertNotEqual(result.returncode, 0, args)
            self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)
            self.assertIn("file/x", result.stderr)
            self.assertEqual(self.snapshot(), before, args)

    def snapshot(self):
        return {os.path.join(d, f): read_bytes(os.path.join(d, f)) for d, _, files in os.walk(self.dir) for f in files}

    def test_damage_in_the_bucket_is_found_and_the_copy_stays(self):
        tensors = model(self.rng)
        self.publish(tensors)
        self.follow()
        before = read_bytes(self.path("copy.safetensors"))
        self.publish(nudge(self.rng, tensors))
        deltas = [os.path.join(d, f) for d, _, files in os.walk(self.path("bucket")) for f in files
                  if f.startswith("delta-")]
        newest = max(deltas, key=os.path.getmtime)
        raw = bytearray(read_bytes(newest))
        raw[len(raw) // 2] ^= 4
        write_bytes(newest, raw)
        self.follow(expect=CORRUPT)
        self.assertEqual(read_bytes(self.path("copy.safetensors")), before)
        self.run_program("verify", "bucket", expect=CORRUPT)

    def test_gc_keeps_the_newest_and_what_it_stands_on(self):
        tensors = model(self.rng)
        for i in range(6):
            tensors = nudge(self.rng, tensors)
            self.publish(tensors, *(("--anchor",) if i == 3 else ()))
        gc = ("gc", "bucket", "--keep", "2", "--min-age-minutes", "0", "--json")
        dry = json.loads(self.run_program(*gc, "--dry-run").stdout)
        self.assertGreater(len(dry["remove"]), 0)
        self.assertIn("6 versions", self.run_program("verify", "bucket").stdout)
        done = json.loads(self.run_program(*gc).stdout)
        self.assertEqual(done["removed"], len(dry["remove"]))
        self.assertIn("3 versions", self.run_program("verify", "bucket").stdout)
        self.follow()

    def test_killed_publishers_and_followers_leave_a_bucket_that_goes_on(self):
        tensors = model(self.rng, 300_000)
        self.publish(tensors)
        done = 0
        for i in range(12):
            tensors = nudge(self.rng, tensors, 0.05)
            self.write_model("m.safetensors", tensors)
            for args in (("publish", "--bucket", "bucket", "--model", "m.safetensors"),
                         ("follow", "--bucket", "bucket", "--out", "copy.safetensors", "--once")):
                process = subprocess.Popen([PROGRAM, *args], cwd=self.dir, stdout=subprocess.DEVNULL,
                                           stderr=subprocess.DEVNULL)
                try:
                    process.wait(timeout=0.004 * i)
                    done += 1
                except subprocess.TimeoutExpired:
                    process.send_signal(signal.SIGKILL)
                    process.wait()
        self.publish(tensors)
        self.follow()
        self.assertEqual(safetensors_file.read(self.path("copy.safetensors"))[1],
                         {n: (d, s, r) for n, d, s, r in tensors})
        self.run_program("gc", "bucket", "--min-age-minutes", "0")
        self.assertNotIn("orphan:", self.run_program("verify", "bucket").stdout)

    def test_a_continuous_follower_stops_cleanly_on_ctrl_c(self):
        self.publish(model(self.rng))
        process = subprocess.Popen([PROGRAM, "follow", "--bucket", "bucket", "--out", "copy.safetensors",
                                    "--poll", "50ms"], cwd=self.dir, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 30
        while not os.path.exists(self.path("copy.safetensors")) and time.monotonic() < deadline:
            time.sleep(0.02)  # another process's file: there is nothing to wait on
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 130, err)
        self.assertTrue(os.path.exists(self.path("copy.safetensors")))

    def test_version_states_what_is_compiled_in_and_what_is_here(self):
        lines = self.run_program("--version").stdout.splitlines()
        self.assertRegex(lines[0], r"^pulseloco \d+\.\d+\.\d+$")
        compiled = [line for line in lines if line.startswith("compiled in")]
        present = [line for line in lines if line.startswith("present")]
        self.assertEqual(len(compiled) + len(present), len(lines) - 1)
        self.assertTrue(any("Open MPI" in line for line in compiled), compiled)
        for what in ("CUDA", "NCCL"):
            self.assertTrue(any(what in line for line in compiled), compiled)
            self.assertTrue(any(what in line for line in present), present)
        self.assertTrue(any("simd kernels run with" in line for line in present), present)

    def doctor(self, *args, expect=OK):
        """By check: whether it held, and what it said."""
        result = self.run_program("doctor", *args, "--json", expect=expect)
        rows = json.loads(result.stdout)
        return {row["check"]: row for row in rows}, result.stderr

    def test_doctor_says_that_a_run_would_start_and_leaves_nothing_behind(self):
        write_bytes(self.path("a.yaml"), b"trainer: {kind: synthetic, elements: 1000}\n"
                    b"run: {dir: the_run}\nevaluate: {samples: 0}\n")
        checks, _ = self.doctor("a.yaml")
        self.assertEqual([c for c in checks if not checks[c]["ok"]], [])
        self.assertEqual(set(checks), {"config", "kernels", "ranks", "device", "trainer", "memory", "folder",
                                       "bucket"})
        self.assertEqual(os.listdir(self.dir), ["a.yaml"])
        self.run_program("train", "a.yaml", "--set", "loco.rounds=1")
        checks, _ = self.doctor("a.yaml", expect=USAGE)
        self.assertIn("--resume", checks["folder"]["says"])
        self.assertIn("honours conditional puts", checks["bucket"]["says"])

    def test_doctor_names_each_check_that_fails_with_its_exit_code(self):
        no_space = 9
        write_bytes(self.path("a.yaml"), b"trainer: {kind: synthetic, elements: 1000}\nrun: {dir: the_run}\n")
        for setting, check, code in (("loco.local_step=4", "config", USAGE),
                                     ("loco.ranks_per_trainer=2", "ranks", USAGE),
                                     ("trainer.elements=1000000000000", "memory", no_space),
                                     ("run.dir=a.yaml/run", "folder", USAGE),
                                     ("publish.bucket=s3://bucket/prefix", "bucket", None)):
            with self.subTest(setting):
                env = {"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9", "AWS_ACCESS_KEY_ID": "a",
                       "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1"}
                result = subprocess.run([PROGRAM, "doctor", "a.yaml", "--set", setting, "--json"],
                                        capture_output=True, text=True, timeout=120, cwd=self.dir,
                                        env={**os.environ, **env})
                failed = [row["check"] for row in json.loads(result.stdout) if not row["ok"]]
                self.assertIn(check, failed)
                self.assertIn(f"first: {failed[0]}", result.stderr)
                self.assertNotEqual(result.returncode, OK)
                if code is not None:
                    self.assertEqual(result.returncode, code)

    def test_asking_for_a_device_that_is_not_there_is_one_clear_error(self):
        facts = self.run_program("--version").stdout
        if "no device" not in facts and "no CUDA" not in facts:
            self.skipTest("there is a device")
        write_bytes(self.path("a.yaml"), b"trainer: {kind: synthetic, elements: 1000}\nrun: {dir: the_run}\n")
        for command in ("train", "doctor"):
            result = subprocess.run([PROGRAM, command, "a.yaml", "--set", "device=cuda"], capture_output=True,
                                    text=True, timeout=120, cwd=self.dir)
            self.assertNotEqual(result.returncode, OK)
            self.assertIn("CUDA" if command == "train" else "device", result.stderr)
            self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)
        self.assertFalse(os.path.exists(self.path("the_run")))


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
