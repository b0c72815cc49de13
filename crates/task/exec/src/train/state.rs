//! The state between two segments, as one byte string.
//!
//! ```text
//!   version (1) │ run (32) │ step (8) │ weights, means, means of squares: four bytes each
//! ```
//!
//! All numbers are little-endian. What the run is decides how many weights there are, so there is
//! one byte string for one state: bytes too many or too few are refused, and so are the bytes of
//! another run and weights that are no numbers.

use super::TrainError;

const VERSION: u8 = 1;
const HEAD: usize = 41;
/// Bytes of a weight, its mean and the mean of its squares.
const NUMBERS: usize = 12;

/// A state that was checked.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct State {
    run: [u8; 32],
    pub(super) step: u64,
    pub(super) weights: Vec<Vec<f32>>,
    first: Vec<Vec<f32>>,
    second: Vec<Vec<f32>>,
}

/// Weights, means and means of squares of one weight.
type Parts<'a> = (&'a mut [f32], &'a mut [f32], &'a mut [f32]);

impl State {
    pub(super) fn zeros(run: [u8; 32], sizes: impl Iterator<Item = usize>) -> Self {
        let zeros: Vec<Vec<f32>> = sizes.map(|size| vec![0.0; size]).collect();
        Self { run, step: 0, weights: zeros.clone(), first: zeros.clone(), second: zeros }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        bytes.extend(self.run);
        bytes.extend(self.step.to_le_bytes());
        for values in [&self.weights, &self.first, &self.second].into_iter().flatten() {
            values.iter().for_each(|value| bytes.extend(value.to_le_bytes()));
        }
        bytes
    }

    pub(super) fn decode(
        bytes: &[u8],
        run: [u8; 32],
        sizes: impl Iterator<Item = usize>,
    ) -> Result<Self, TrainError> {
        let wrong = |reason| TrainError::State { reason };
        let (head, numbers) = bytes.split_at_checked(HEAD).ok_or(wrong("it is cut"))?;
        let (version, rest) = head.split_first().ok_or(wrong("it is cut"))?;
        if *version != VERSION {
            return Err(wrong("its version is not known"));
        }
        let (found, step) = rest.split_at(run.len());
        if found != run {
            return Err(wrong("it belongs to other data or another configuration"));
        }
        let step = step.try_into().map_err(|_| wrong("it is cut"))?;
        let mut state = Self { step: u64::from_le_bytes(step), ..Self::zeros(run, sizes) };
        let count: usize = state.weights.iter().map(Vec::len).sum();
        if Some(numbers.len()) != count.checked_mul(NUMBERS) {
            return Err(wrong("it has another length"));
        }
        let (numbers, _) = numbers.as_chunks();
        let mut numbers = numbers.iter().map(|bytes| f32::from_le_bytes(*bytes));
        let Self { weights, first, second, .. } = &mut state;
        for values in [weights, first, second].into_iter().flatten() {
            values.iter_mut().zip(&mut numbers).for_each(|(value, number)| *value = number);
        }
        if !state.is_finite() {
            return Err(wrong("it holds what is no number"));
        }
        Ok(state)
    }

    /// What belongs to one weight.
    pub(super) fn parts(&mut self, index: usize) -> Option<Parts<'_>> {
        let weights = self.weights.get_mut(index)?;
        Some((weights, self.first.get_mut(index)?, self.second.get_mut(index)?))
    }

    pub(super) fn is_finite(&self) -> bool {
        let all = [&self.weights, &self.first, &self.second].into_iter().flatten().flatten();
        all.copied().all(f32::is_finite)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RUN: [u8; 32] = [7; 32];

    fn decode(bytes: &[u8]) -> Result<State, TrainError> {
        State::decode(bytes, RUN, [2, 1].into_iter())
    }

    proptest! {
        #[test]
        fn a_state_reads_back_as_written(
            step: u64,
            numbers in proptest::collection::vec(-1e30f32..1e30, 9),
        ) {
            let mut state = State::zeros(RUN, [2, 1].into_iter());
            state.step = step;
            let State { weights, first, second, .. } = &mut state;
            let places = [weights, first, second].into_iter().flatten().flatten();
            places.zip(&numbers).for_each(|(place, number)| *place = *number);
            let bytes = state.encode();
            prop_assert_eq!(decode(&bytes).unwrap(), state);
            prop_assert!(decode(&bytes[1..]).is_err());
            prop_assert!(decode(&[bytes.as_slice(), &[0]].concat()).is_err());
        }
    }

    #[test]
    fn any_cut_and_any_other_head_is_refused() {
        let bytes = State::zeros(RUN, [2, 1].into_iter()).encode();
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length]).is_err(), "{length}");
        }
        for place in 0..33 {
            let mut other = bytes.clone();
            other[place] ^= 1;
            assert!(decode(&other).is_err(), "{place}");
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        let mut bytes = State::zeros(RUN, [2, 1].into_iter()).encode();
        bytes[HEAD..HEAD + 4].copy_from_slice(&f32::NAN.to_le_bytes());
        assert!(decode(&bytes).is_err());
    }
}
