//! What a model's file may hold, looked at before the library reads it.
//!
//! A file of ONNX is a protobuf message that can point elsewhere: tensors may lie in other files of
//! this machine, and operators may come from other domains than the standard's. Both are refused.
//! Only the fields that lead there are followed; whether the rest makes sense is told by the library.

/// Messages within messages.
const DEEPEST: u32 = 64;
/// Domains of the standard; the first one is the default.
const DOMAINS: [&[u8]; 3] = [b"", b"ai.onnx", b"ai.onnx.ml"];

/// Why a model is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ModelError {
    /// It is no protobuf message.
    #[error("the model is malformed")]
    Malformed,
    /// Messages within messages have an end.
    #[error("the model is nested deeper than {DEEPEST} messages")]
    Deep,
    /// It names another file.
    #[error("the model keeps tensors in another file")]
    External,
    /// It uses what the standard does not have.
    #[error("the model uses operators of the domain `{domain}`")]
    Domain {
        /// Whose they are.
        domain: String,
    },
}

/// A message of `onnx.proto` on the way to a tensor or an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Message {
    Model,
    Training,
    Function,
    Graph,
    Node,
    Attribute,
    Sparse,
    Tensor,
}

impl Message {
    /// The message in a field, if it is one to follow.
    const fn inner(self, field: u64) -> Option<Self> {
        Some(match (self, field) {
            (Self::Model, 7) | (Self::Training, 1 | 2) | (Self::Attribute, 6 | 11) => Self::Graph,
            (Self::Model, 20) => Self::Training,
            (Self::Model, 25) => Self::Function,
            (Self::Graph, 1) | (Self::Function, 7) => Self::Node,
            (Self::Node, 5) | (Self::Function, 11) => Self::Attribute,
            (Self::Graph, 15) | (Self::Attribute, 22 | 23) => Self::Sparse,
            (Self::Graph, 5) | (Self::Attribute, 5 | 10) | (Self::Sparse, 1 | 2) => Self::Tensor,
            _ => return None,
        })
    }
}

/// The value of a field.
#[derive(Clone, Copy, Debug)]
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Refuses a model that points elsewhere.
pub(super) fn check(bytes: &[u8]) -> Result<(), ModelError> {
    follow(Message::Model, bytes, DEEPEST)
}

fn follow(message: Message, mut bytes: &[u8], depth: u32) -> Result<(), ModelError> {
    let depth = depth.checked_sub(1).ok_or(ModelError::Deep)?;
    while !bytes.is_empty() {
        let (field, value) = take_field(&mut bytes).ok_or(ModelError::Malformed)?;
        match (message, field, value) {
            // Where the data are: here, or elsewhere.
            (Message::Tensor, 14, Value::Number(0)) => {}
            (Message::Tensor, 13 | 14, _) => return Err(ModelError::External),
            (Message::Node, 7, Value::Bytes(domain)) if !DOMAINS.contains(&domain) => {
                let domain = String::from_utf8_lossy(domain).chars().take(64).collect();
                return Err(ModelError::Domain { domain });
            }
            (_, _, Value::Bytes(inside)) => {
                if let Some(inner) = message.inner(field) {
                    follow(inner, inside, depth)?;
                }
            }
            (_, _, Value::Number(_)) => {}
        }
    }
    Ok(())
}

/// Takes the number and the value of the next field; groups, which nobody writes, are none.
fn take_field<'a>(bytes: &mut &'a [u8]) -> Option<(u64, Value<'a>)> {
    let tag = u64::from(u32::try_from(take_number(bytes)?).ok()?);
    let value = match tag & 7 {
        0 => Value::Number(take_number(bytes)?),
        1 => Value::Bytes(take(bytes, 8)?),
        2 => {
            let length = usize::try_from(take_number(bytes)?).ok()?;
            Value::Bytes(take(bytes, length)?)
        }
        5 => Value::Bytes(take(bytes, 4)?),
        _ => return None,
    };
    Some((tag >> 3, value))
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

/// A number of 1 to 10 bytes, seven bits in each, the lowest first.
fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        // The tenth byte has room for one bit.
        if shift == 63 && bits > 1 {
            return None;
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A field with bytes in it; short enough that its length is one byte.
    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let length = u8::try_from(bytes.len()).unwrap();
        assert!(length < 128);
        // Numbers from 16 on take two bytes.
        let tag = u16::from(number) << 3 | 2;
        let tag = if tag < 128 {
            vec![u8::try_from(tag).unwrap()]
        } else {
            vec![u8::try_from(tag & 0x7f | 0x80).unwrap(), u8::try_from(tag >> 7).unwrap()]
        };
        [&tag[..], &[length], bytes].concat()
    }

    fn within(path: &[u8], bytes: &[u8]) -> Vec<u8> {
        path.iter().rev().fold(bytes.to_vec(), |inside, number| field(*number, &inside))
    }

    /// Every way from a model to a tensor that is one step long at each kind of message.
    const TENSORS: [&[u8]; 9] = [
        &[7, 5],
        &[7, 15, 1],
        &[7, 15, 2],
        &[7, 1, 5, 5],
        &[7, 1, 5, 10],
        &[7, 1, 5, 22, 1],
        &[7, 1, 5, 6, 5],
        &[20, 1, 5],
        &[25, 11, 23, 2],
    ];

    #[test]
    fn a_tensor_in_another_file_is_refused_wherever_it_is() {
        for path in TENSORS {
            assert_eq!(check(&within(path, &[14 << 3, 0])), Ok(()), "{path:?}");
            for outside in [&[14 << 3, 1][..], &field(13, b"\x0a\x08location")] {
                let found = check(&within(path, outside));
                assert_eq!(found, Err(ModelError::External), "{path:?}");
            }
        }
    }

    #[test]
    fn an_operator_of_a_foreign_domain_is_refused_wherever_it_is() {
        for path in [&[7, 1][..], &[7, 1, 5, 6, 1], &[7, 1, 5, 11, 1], &[20, 2, 1], &[25, 7]] {
            for domain in ["", "ai.onnx", "ai.onnx.ml"] {
                assert_eq!(check(&within(path, &field(7, domain.as_bytes()))), Ok(()));
            }
            let found = check(&within(path, &field(7, b"com.microsoft")));
            let domain = "com.microsoft".to_owned();
            assert_eq!(found, Err(ModelError::Domain { domain }), "{path:?}");
        }
    }

    #[test]
    fn nesting_has_an_end() {
        // A tag and a length of up to five bytes for each level, from the inside out.
        let nested = |levels: u32| {
            let mut bytes = Vec::new();
            let tag = |level| [1 << 3 | 2, 6 << 3 | 2, 5 << 3 | 2][level as usize % 3];
            for level in 0..levels {
                let mut length = bytes.len();
                let mut head = vec![tag(level)];
                while length >= 128 {
                    head.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
                    length >>= 7;
                }
                head.push(u8::try_from(length).unwrap());
                bytes = [head, bytes].concat();
            }
            bytes
        };
        // Attributes hold graphs, graphs hold nodes, nodes hold attributes.
        let graph = |levels| follow(Message::Node, &nested(levels), DEEPEST);
        let starts = |levels: u32| levels - levels % 3;
        assert_eq!(graph(starts(DEEPEST - 1)), Ok(()));
        assert_eq!(graph(starts(DEEPEST + 3)), Err(ModelError::Deep));
    }

    proptest! {
        #[test]
        fn whatever_the_bytes_are_there_is_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = check(&bytes);
        }

        #[test]
        fn numbers_are_read_as_they_are_written(number in any::<u64>()) {
            let mut bytes = Vec::new();
            let mut rest = number;
            while rest >= 128 {
                bytes.push(u8::try_from(rest & 0x7f).unwrap() | 0x80);
                rest >>= 7;
            }
            bytes.push(u8::try_from(rest).unwrap());
            prop_assert_eq!(take_number(&mut &bytes[..]), Some(number));
            bytes.pop();
            prop_assert_eq!(take_number(&mut &bytes[..]), None);
        }
    }
}
