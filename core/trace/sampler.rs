//! The sampling decision.
//!
//! Implements OpenTelemetry's six samplers. The same ratio gives the same decision for a trace everywhere, and a higher
//! ratio includes all traces of a lower one. Draws no random numbers: the randomness is that of the trace ID, or the
//! explicit value in `tracestate`.
//!
//! The ratio is compared as in OpenTelemetry's consistent probability sampling: 56 random bits, and a threshold below
//! which traces are rejected. Collectors that sample by the same rules agree with it.

use crate::config::{RootSampler, Sampler};

use super::ids::TraceId;

impl Sampler {
    /// Returns whether to sample a span; `is_parent_sampled` is `None` without a parent. `state` is the `tracestate` of
    /// the trace.
    pub fn decides(&self, trace_id: TraceId, state: Option<&str>, is_parent_sampled: Option<bool>) -> bool {
        match is_parent_sampled {
            Some(is_sampled) if self.is_parent_based => is_sampled,
            _ => self.root.decides(trace_id, state),
        }
    }
}

impl RootSampler {
    fn decides(self, trace_id: TraceId, state: Option<&str>) -> bool {
        match self {
            Self::AlwaysOff => false,
            Self::AlwaysOn => true,
            Self::Ratio(ratio) => {
                state.and_then(explicit_randomness).unwrap_or_else(|| randomness(trace_id))
                    >= threshold(ratio)
            }
        }
    }
}

/// Returns the last seven bytes of the ID, which are random.
fn randomness(trace_id: TraceId) -> u64 {
    trace_id.get() as u64 & (RANDOM_VALUES - 1)
}

/// The number of different random values.
const RANDOM_VALUES: u64 = 1 << 56;

/// Returns the number of random values to reject.
fn threshold(ratio: f64) -> u64 {
    debug_assert!((0.0..=1.0).contains(&ratio), "{ratio} is no ratio");
    // Exact, as a ratio has 53 binary digits. The kept share is rounded rather than the rejected one, which has too few
    // digits for very small ratios.
    RANDOM_VALUES - ((ratio * RANDOM_VALUES as f64).round() as u64).min(RANDOM_VALUES)
}

/// Returns the explicit randomness in a `tracestate`: 14 hexadecimal digits, `ot=rv:6e6d1a75832a2f`.
fn explicit_randomness(state: &str) -> Option<u64> {
    let member = state.split(',').find_map(|member| member.trim().strip_prefix("ot="))?;
    let digits = member.split(';').find_map(|field| field.strip_prefix("rv:"))?;
    let is_value =
        digits.len() == 14 && digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    if is_value { u64::from_str_radix(digits, 16).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(number: u128) -> TraceId {
        TraceId::new(number).unwrap()
    }

    #[test]
    fn each_of_the_six_decides_by_the_parent_or_by_itself() {
        // The randomness of this trace is exactly one half.
        let half = trace(0xff << 64 | 0x80_0000_0000_0000);
        let table = [
            (RootSampler::AlwaysOn, false, [true, true, true]),
            (RootSampler::AlwaysOff, false, [false, false, false]),
            (RootSampler::Ratio(0.5), false, [true, true, true]),
            (RootSampler::Ratio(0.49), false, [false, false, false]),
            (RootSampler::AlwaysOn, true, [true, true, false]),
            (RootSampler::AlwaysOff, true, [false, true, false]),
            (RootSampler::Ratio(0.5), true, [true, true, false]),
            (RootSampler::Ratio(0.49), true, [false, true, false]),
        ];
        for (root, is_parent_based, expected) in table {
            let sampler = Sampler { root, is_parent_based };
            let decisions = [None, Some(true), Some(false)].map(|parent| sampler.decides(half, None, parent));
            assert_eq!(decisions, expected, "{sampler:?}");
        }
    }

    #[test]
    fn thresholds_are_those_of_the_specification() {
        for (ratio, digits) in [
            (1.0, 0),
            (0.5, 0x80_0000_0000_0000),
            (0.25, 0xc0_0000_0000_0000),
            (0.01, 0xfd_70a3_d70a_3d71),
            (0.0, RANDOM_VALUES),
            (1.0 / RANDOM_VALUES as f64, RANDOM_VALUES - 1),
        ] {
            assert_eq!(threshold(ratio), digits, "{ratio}");
        }
        // 1 in 3, with five digits.
        assert_eq!(threshold(1.0 / 3.0) >> 36, 0xa_aaaa);
    }

    #[test]
    fn only_the_last_seven_bytes_count() {
        let sampler = RootSampler::Ratio(0.5);
        assert!(sampler.decides(trace(0x00ff_ffff_ffff_ffff), None));
        assert!(!sampler.decides(trace(0xffff_ffff_ffff_ffff_ff7f_ffff_ffff_ffff), None));
    }

    #[test]
    fn a_higher_ratio_includes_all_of_a_lower_one_and_the_share_is_right() {
        // A fixed sequence of 64-bit numbers.
        let mut number = 1u64;
        let mut kept = [0u32; 3];
        for _ in 0..100_000 {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let id = trace(u128::from(number.rotate_left(32)) | 1 << 100);
            let by_ratio = [0.01, 0.1, 0.5].map(|ratio| RootSampler::Ratio(ratio).decides(id, None));
            assert!(by_ratio[0] <= by_ratio[1] && by_ratio[1] <= by_ratio[2]);
            kept.iter_mut().zip(by_ratio).for_each(|(count, is_kept)| *count += u32::from(is_kept));
        }
        assert!((900..1100).contains(&kept[0]), "{kept:?}");
        assert!((9_500..10_500).contains(&kept[1]), "{kept:?}");
        assert!((49_000..51_000).contains(&kept[2]), "{kept:?}");
    }

    #[test]
    fn explicit_randomness_comes_first_if_it_is_valid() {
        let sampler = RootSampler::Ratio(0.5);
        let (low, high) = (trace(1), trace(0xff_ffff_ffff_ffff));
        assert!(sampler.decides(low, Some("a=b,ot=th:0;rv:ffffffffffffff")));
        assert!(!sampler.decides(high, Some("ot=rv:7fffffffffffff,x=y")));
        for other in [
            "ot=rv:7fffffffffff",
            "ot=rv:7FFFFFFFFFFFFF",
            "ot=th:8",
            "a=rv:00000000000000",
            "ot=rv:+fffffffffffff",
        ] {
            assert!(sampler.decides(high, Some(other)) && !sampler.decides(low, Some(other)), "{other}");
        }
    }
}
