// A bucket of the Hugging Face Hub: read by its resolve URLs, written through its S3 gateway.
//
// Facts: https://huggingface.co/docs/hub/storage-buckets-s3 (gateway "https://s3.hf.co/NAMESPACE",
// region us-east-1, path style, reads answered by a 302 to a CDN; keys from "Generate S3
// credentials" of a token), and the huggingface_hub library (resolve URLs, HF_TOKEN, HF_ENDPOINT).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "store/remote/http_session.h"
#include "store/remote/remote_store.h"
#include "store/remote/url.h"

namespace pulse {

struct HubBucket {
  std::string name_space;
  std::string name;
  std::string prefix;       // without slashes at its ends; may be empty
  std::string endpoint;     // HF_ENDPOINT, or https://huggingface.co
  std::string s3_endpoint;  // HF_S3_ENDPOINT, or https://s3.hf.co; the namespace is put behind it
  std::string token;        // HF_TOKEN or the file that `hf auth login` writes; may be empty
  std::optional<AwsCredentials> s3_credentials;
};

// Of "hf://buckets/NAMESPACE/NAME[/prefix]" and the environment.
StatusOr<HubBucket> ParseHubBucket(const Url& url, const RemoteStoreDeps& deps);

// Without S3 credentials it is read only (kPermissionDenied says how to get some). With them, what
// has an etag comes from the gateway too, for the two services' etags need not agree; payloads come
// from the Hub's CDN either way.
StatusOr<std::unique_ptr<Store>> OpenHubStore(HubBucket bucket, const RemoteStoreDeps& deps,
                                              std::unique_ptr<HttpSession> reading,
                                              std::unique_ptr<HttpSession> writing);

}  // namespace pulse
