#include "sync/codec_choice.h"

namespace pulse {
namespace {

double ReadyAfter(const CodecCost& cost, double link_bytes_per_s) {
  return cost.encode_s + 2 * cost.bytes / link_bytes_per_s + cost.decode_s;
}

bool IsMeasured(const CodecCost& cost) {
  return cost.encode_s > 0 && cost.decode_s > 0 && cost.bytes > 0;
}

}  // namespace

StatusOr<CodecSetting> CodecSettingFromName(std::string_view name) {
  if (name == "fast") return CodecSetting::kFast;
  if (name == "small") return CodecSetting::kSmall;
  if (name == "auto") return CodecSetting::kAuto;
  return InvalidArgument("no codec named '{}'; there are fast, small and auto", name);
}

CodecDecision ChooseCodec(const CodecCosts& costs) {
  if (!(costs.link_bytes_per_s > 0)) {
    return {RangeCodec::kSmall, "auto: small, as the link is not measured yet"};
  }
  if (!IsMeasured(costs.fast) || !IsMeasured(costs.small)) {
    return {RangeCodec::kSmall, "auto: small, as the codecs are not measured"};
  }
  const double fast = ReadyAfter(costs.fast, costs.link_bytes_per_s);
  const double small = ReadyAfter(costs.small, costs.link_bytes_per_s);
  const RangeCodec codec = small <= fast ? RangeCodec::kSmall : RangeCodec::kFast;
  return {codec,
          fmt::format("auto: {}, ready after {:.3g} s in small and {:.3g} s in fast at {:.3g} "
                      "MB/s",
                      NameOf(codec), small, fast, costs.link_bytes_per_s * 1e-6)};
}

}  // namespace pulse
