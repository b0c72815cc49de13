//! Models that no tool writes, in the bytes of protobuf.

/// A field with bytes in it.
pub(crate) struct Field(pub(crate) u64, pub(crate) Vec<u8>);

impl Field {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let length = u64::try_from(self.1.len()).unwrap();
        [plain(self.0 << 3 | 2), plain(length), self.1.clone()].concat()
    }
}

/// A field with a text in it.
pub(crate) fn text(field: u64, text: &str) -> Vec<u8> {
    Field(field, text.as_bytes().to_vec()).bytes()
}

/// A field with a number in it.
pub(crate) fn number(field: u64, number: u64) -> Vec<u8> {
    [plain(field << 3), plain(number)].concat()
}

fn plain(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 128 {
        bytes.push(u8::try_from(number & 0x7f).unwrap() | 0x80);
        number >>= 7;
    }
    bytes.push(u8::try_from(number).unwrap());
    bytes
}

/// The name of a producer, so written that the library's own format has its mark there.
pub(crate) const POLYGLOT: &[u8] = b"\x12\x06xxORTM";

/// Types of numbers.
const FLOAT: u64 = 1;
const INTEGER: u64 = 7;
const TRUTH: u64 = 9;

/// The name and the type of a value.
fn value(name: &str, kind: u64, sides: &[u64]) -> Vec<u8> {
    let side = |side: &u64| Field(1, number(1, *side)).bytes();
    let shape = Field(2, sides.iter().flat_map(side).collect()).bytes();
    let tensor = Field(1, [number(1, kind), shape].concat()).bytes();
    [text(1, name), Field(2, tensor).bytes()].concat()
}

fn node(kind: &str, inputs: &[&str], outputs: &[&str], more: &[u8]) -> Vec<u8> {
    let inputs = inputs.iter().flat_map(|name| text(1, name));
    let outputs = outputs.iter().flat_map(|name| text(2, name));
    inputs.chain(outputs).chain(text(4, kind)).chain(more.iter().copied()).collect()
}

/// A loop of very many turns in which nothing changes: a picture of 4 by 4 points comes out as it is.
pub(crate) fn endless() -> Vec<u8> {
    const PICTURE: [u64; 4] = [1, 1, 4, 4];
    let body = [
        Field(1, node("Identity", &["on"], &["goes on"], &[])),
        Field(1, node("Neg", &["before"], &["after"], &[])),
        Field(2, b"body".to_vec()),
        Field(11, value("turn", INTEGER, &[])),
        Field(11, value("on", TRUTH, &[])),
        Field(11, value("before", FLOAT, &PICTURE)),
        Field(12, value("goes on", TRUTH, &[])),
        Field(12, value("after", FLOAT, &PICTURE)),
    ];
    let body: Vec<u8> = body.iter().flat_map(Field::bytes).collect();
    let attribute = [text(1, "body"), Field(6, body).bytes(), number(20, 5)].concat();
    let most = i64::MAX.to_le_bytes().to_vec();
    let turns = [number(2, INTEGER), text(8, "turns"), Field(9, most).bytes()].concat();
    let graph = [
        Field(1, node("Loop", &["turns", "", "in"], &["out"], &Field(5, attribute).bytes())),
        Field(2, b"endless".to_vec()),
        Field(5, turns),
        Field(11, value("in", FLOAT, &PICTURE)),
        Field(12, value("out", FLOAT, &PICTURE)),
    ];
    let graph: Vec<u8> = graph.iter().flat_map(Field::bytes).collect();
    [number(1, 8), Field(7, graph).bytes(), Field(8, number(2, 13)).bytes()].concat()
}
