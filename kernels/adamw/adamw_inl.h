// One AdamW step of a vector of lanes: compiled once for each Highway target (no #pragma once).
#if defined(PULSE_KERNELS_ADAMW_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PULSE_KERNELS_ADAMW_INL_H
#undef PULSE_KERNELS_ADAMW_INL_H
#else
#define PULSE_KERNELS_ADAMW_INL_H
#endif

#include <hwy/highway.h>

#include "kernels/adamw/adamw.h"
#include "kernels/arithmetic/arithmetic_inl.h"

HWY_BEFORE_NAMESPACE();
namespace pulse::kernels::HWY_NAMESPACE {

// AdamWElement() of each lane. No MulAdd here: the contract rounds every product.
template <class D>
class AdamWLanes {
 public:
  using V = hwy::HWY_NAMESPACE::Vec<D>;

  HWY_INLINE AdamWLanes(D d, const AdamWScalars& scalars)
      : d_(d),
        decay_(hwy::HWY_NAMESPACE::Set(d, scalars.decay)),
        beta1_(hwy::HWY_NAMESPACE::Set(d, scalars.beta1)),
        one_minus_beta1_(hwy::HWY_NAMESPACE::Set(d, scalars.one_minus_beta1)),
        beta2_(hwy::HWY_NAMESPACE::Set(d, scalars.beta2)),
        one_minus_beta2_(hwy::HWY_NAMESPACE::Set(d, scalars.one_minus_beta2)),
        step_size_(hwy::HWY_NAMESPACE::Set(d, scalars.step_size)),
        root_correction2_(hwy::HWY_NAMESPACE::Set(d, scalars.root_correction2)),
        epsilon_(hwy::HWY_NAMESPACE::Set(d, scalars.epsilon)) {}

  HWY_INLINE void Step(V& w, V& m, V& v, V g) const {
    namespace hn = hwy::HWY_NAMESPACE;
    const auto decayed = hn::Mul(w, decay_);
    const auto m1 = hn::Add(hn::Mul(beta1_, m), hn::Mul(one_minus_beta1_, g));
    const auto v1 = hn::Add(hn::Mul(beta2_, v), hn::Mul(hn::Mul(one_minus_beta2_, g), g));
    const auto denominator = hn::Add(hn::Div(hn::Sqrt(v1), root_correction2_), epsilon_);
    w = CanonicalLanes(d_, hn::Sub(decayed, hn::Mul(step_size_, hn::Div(m1, denominator))));
    m = CanonicalLanes(d_, m1);
    v = CanonicalLanes(d_, v1);
  }

 private:
  D d_;
  V decay_, beta1_, one_minus_beta1_, beta2_, one_minus_beta2_, step_size_, root_correction2_,
      epsilon_;
};

}  // namespace pulse::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
