// The meeting after every outer step: digests of theta are compared before anything of the round
// may be committed, and figures are added up.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collective/communicator.h"
#include "core/bytes.h"
#include "core/deadline.h"
#include "core/digest.h"
#include "core/schema.h"
#include "core/status.h"
#include "loco/exchange/exchange.h"
#include "loco/report.h"
#include "trainer/trainer.h"

namespace pulse::loco {

// One rank's figures of a round; metrics are left out by a dropped trainer.
struct RankClosing {
  Digest theta;
  Traffic traffic;
  PhaseSeconds seconds;
  Metrics metrics;
};

Bytes EncodeRankClosing(const RankClosing& closing);
// kDataLoss for any bytes that EncodeRankClosing does not write.
StatusOr<RankClosing> DecodeRankClosing(ByteView bytes);

// `schema` with the dtype F32 for every tensor: what theta is.
// kInvalidArgument if it gets too large that way.
StatusOr<ModelSchema> MasterSchema(const ModelSchema& schema);

// One per tensor of `masters`. theta: its flat array.
std::vector<Digest> ThetaDigests(const ModelSchema& masters, std::span<const float> theta);

// Collective: exchanges `mine` (whose digest is made here from tensor_digests) and returns all
// rows, by rank. kDataLoss if a digest differs: a second exchange finds the tensor; the message
// names it and the minority of ranks, or all where there is no majority.
StatusOr<std::vector<RankClosing>> CloseRound(Communicator& communicator,
                                              const ModelSchema& masters,
                                              std::span<const Digest> tensor_digests,
                                              RankClosing mine, Deadline deadline);

// Adds up the ranks' figures in rank order: metrics, traffic_of_all and slowest of `report`.
void SumClosings(std::span<const RankClosing> closings, RoundReport& report);

}  // namespace pulse::loco
