#include "sync/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pulse {
namespace {

using ::testing::HasSubstr;

std::string Sha(char c) {
  return std::string(64, c);
}
Digest SomeDigest(uint8_t byte) {
  Digest digest;
  digest.bytes.fill(byte);
  return digest;
}

// One key for all tests: RFC 8410 (PKCS #8), 32 bytes of seed.
constexpr char kPrivatePem[] =
    "-----BEGIN PRIVATE KEY-----\n"
    "MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n"
    "-----END PRIVATE KEY-----\n";

Manifest SomeManifest() {
  Manifest manifest;
  manifest.run = "main";
  manifest.id = {2, 6, std::string(32, 'a')};
  manifest.created_unix_ms = 1'700'000'000'123;
  VersionRef& parent = manifest.parent.emplace();
  parent.id = {1, 5, std::string(32, 'b')};
  parent.manifest_sha256 = Sha('c');
  manifest.base_digest = SomeDigest(1);
  manifest.target_digest = SomeDigest(2);
  manifest.schema_digest = SomeDigest(3);
  manifest.objects = {{PayloadRole::kDelta, 0, 100, Sha('d')},
                      {PayloadRole::kDelta, 1, 50, Sha('e')}};
  manifest.chain_bytes = 450;
  manifest.chain_length = 3;
  manifest.changed = 12;
  manifest.codec = "fast";
  manifest.metadata = {{"step", "6"}, {"note", "\xc3\xa9\"\\\n"}};
  return manifest;
}

Manifest WithAnchor(Manifest manifest) {
  manifest.objects.push_back({PayloadRole::kAnchor, 0, 1000, Sha('f')});
  manifest.chain_bytes = manifest.chain_length = 0;
  manifest.reason = "cost";
  return manifest;
}

TEST(Manifest, ReadsWhatItWrites) {
  for (const Manifest& manifest : {SomeManifest(), WithAnchor(SomeManifest())}) {
    const std::string text = SerializeManifest(manifest);
    const auto read = ParseManifest(AsBytes(text));
    ASSERT_TRUE(read.ok()) << read.status() << text;
    EXPECT_EQ(*read, manifest);
  }
  EXPECT_EQ(SomeManifest().objects[1].Name(), "delta-00001.safetensors");
  EXPECT_EQ(WithAnchor(SomeManifest()).bytes(PayloadRole::kDelta), 150u);
}

// A flipped bit may still spell a manifest, which is why its hash stands in the head; but never the
// same.
TEST(Manifest, EveryFlippedBitIsRefusedOrReadsAsSomethingElse) {
  const std::string good = SerializeManifest(SomeManifest());
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    const auto read = ParseManifest(AsBytes(bad));
    EXPECT_TRUE(!read.ok() || *read != SomeManifest()) << bit;
  }
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(ParseManifest(AsBytes(good).first(size)).ok()) << size;
  }
}

void ExpectRefused(const std::function<void(Manifest&)>& change, const char* what) {
  Manifest manifest = SomeManifest();
  change(manifest);
  const auto read = ParseManifest(AsBytes(SerializeManifest(manifest)));
  EXPECT_EQ(read.status().code(), absl::StatusCode::kDataLoss) << what;
}

TEST(Manifest, RefusesWhatNoPublisherWrites) {
  ExpectRefused([](Manifest& m) { m.run = "../x"; }, "run");
  ExpectRefused([](Manifest& m) { m.id.number = 0; }, "number 0");
  ExpectRefused([](Manifest& m) { m.id.epoch = 0; }, "epoch 0");
  ExpectRefused([](Manifest& m) { m.id.nonce = "x"; }, "nonce");
  ExpectRefused([](Manifest& m) { m.objects.clear(); }, "no objects");
  ExpectRefused([](Manifest& m) { m.objects[1].part = 2; }, "part gap");
  ExpectRefused([](Manifest& m) { std::swap(m.objects[0], m.objects[1]); }, "part order");
  ExpectRefused([](Manifest& m) { m.objects[0].sha256 = "zz"; }, "sha");
  ExpectRefused([](Manifest& m) { m.objects[0].bytes = kMaxVersionNumber; }, "sizes overflow");
  ExpectRefused([](Manifest& m) { m.base_digest.reset(); }, "delta without base");
  ExpectRefused([](Manifest& m) { m.parent.reset(); }, "delta without parent");
  ExpectRefused([](Manifest& m) { m.codec = ""; }, "no codec");
  ExpectRefused([](Manifest& m) { m.parent->id.number = 4; }, "gap to the parent");
  ExpectRefused([](Manifest& m) { m.parent->id.epoch = 3; }, "parent of a later epoch");
  ExpectRefused([](Manifest& m) { m.chain_length = 0; }, "no chain, no anchor");
  ExpectRefused([](Manifest& m) { m.reason = "cost"; }, "reason without anchor");
  ExpectRefused(
      [](Manifest& m) {
        m = WithAnchor(m);
        m.chain_bytes = 1;
      },
      "anchor in a chain");
  ExpectRefused(
      [](Manifest& m) {
        m = WithAnchor(m);
        m.reason = "";
      },
      "anchor without reason");
  ExpectRefused(
      [](Manifest& m) {
        m = WithAnchor(m);
        std::swap(m.objects[0], m.objects[2]);
      },
      "roles");
  ExpectRefused([](Manifest& m) { m.created_unix_ms = -1; }, "time");
}

TEST(Manifest, RefusesOtherSpellings) {
  const std::string good = SerializeManifest(SomeManifest());
  std::string spaced = good;
  spaced.insert(1, " ");
  std::string unknown = good;
  unknown.insert(unknown.size() - 1, ",\"zzz\":1");
  std::string repeated = good;
  repeated.insert(1, "\"run\":\"main\",");
  std::string fraction = good;
  fraction.replace(fraction.find("\"changed\":12"), 12, "\"changed\":12.0");
  for (const std::string& bad :
       {spaced, unknown, repeated, fraction, good + "\n", std::string("{}"),
        std::string("{\"objects\":7}"), std::string(1'000'000, '[')}) {
    EXPECT_EQ(ParseManifest(AsBytes(bad)).status().code(), absl::StatusCode::kDataLoss);
  }
}

TEST(Manifest, ChecksTheSuccession) {
  Manifest parent = SomeManifest();
  Manifest child = SomeManifest();
  child.id = {2, 7, std::string(32, 'f')};
  child.parent->id = parent.id;
  child.base_digest = parent.target_digest;
  child.chain_bytes = parent.chain_bytes + 150;
  child.chain_length = parent.chain_length + 1;
  EXPECT_TRUE(CheckSuccession(parent, child).ok());
  const auto broken = [&](const std::function<void(Manifest&)>& change) {
    Manifest changed = child;
    change(changed);
    return CheckSuccession(parent, changed).code() == absl::StatusCode::kDataLoss;
  };
  EXPECT_TRUE(broken([](Manifest& m) { m.base_digest = SomeDigest(9); }));
  EXPECT_TRUE(broken([](Manifest& m) { m.schema_digest = SomeDigest(9); }));
  EXPECT_TRUE(broken([](Manifest& m) { m.chain_bytes += 1; }));
  EXPECT_TRUE(broken([](Manifest& m) { m.chain_length += 1; }));
  EXPECT_TRUE(broken([](Manifest& m) { m.parent->id.nonce = std::string(32, '0'); }));
  EXPECT_TRUE(broken([](Manifest& m) { m.run = "other"; }));
}

TEST(Manifest, SignaturesBindEveryField) {
  const auto key = SigningKey::FromPem(kPrivatePem);
  ASSERT_TRUE(key.ok()) << key.status();
  const std::string& trusted = (*key)->public_key_hex();
  Manifest manifest = SomeManifest();
  EXPECT_EQ(CheckManifestSignature(manifest, trusted).code(), absl::StatusCode::kPermissionDenied);
  ASSERT_TRUE(SignManifest(**key, manifest).ok());
  const auto read = ParseManifest(AsBytes(SerializeManifest(manifest)));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(CheckManifestSignature(*read, trusted).ok());
  EXPECT_FALSE(CheckManifestSignature(*read, std::string(64, '0')).ok());
  for (const auto& change : std::vector<std::function<void(Manifest&)>>{
           [](Manifest& m) { m.changed = 13; }, [](Manifest& m) { m.objects[0].bytes = 101; },
           [](Manifest& m) { m.signature->value[0] = m.signature->value[0] == '0' ? '1' : '0'; },
           [](Manifest& m) { m.signature->value = "zz"; },
           [](Manifest& m) { m.signature->key = Sha('0'); }}) {
    Manifest changed = manifest;
    change(changed);
    EXPECT_EQ(CheckManifestSignature(changed, trusted).code(), absl::StatusCode::kPermissionDenied);
  }
}

TEST(Signature, KeysComeAsPemOrHex) {
  EXPECT_FALSE(SigningKey::FromPem("").ok());
  EXPECT_FALSE(
      SigningKey::FromPem("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n").ok());
  const std::string hex = (*SigningKey::FromPem(kPrivatePem))->public_key_hex();
  // RFC 8410, section 10.1: the public half of that very key.
  EXPECT_EQ(hex, "19bf44096984cdfe8541bac167dc3b96c85086aa30b6b6cb0c5c38ad703166e1");
  EXPECT_EQ(*PublicKeyHex(hex + "\n"), hex);
  EXPECT_EQ(*PublicKeyHex("-----BEGIN PUBLIC KEY-----\n"
                          "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n"
                          "-----END PUBLIC KEY-----\n"),
            hex);
  EXPECT_FALSE(PublicKeyHex("abc").ok());
  EXPECT_FALSE(PublicKeyHex(kPrivatePem).ok());
}

}  // namespace
}  // namespace pulse
