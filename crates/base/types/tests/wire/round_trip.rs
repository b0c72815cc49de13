//! Properties of all encodings: a value survives, has one byte string, and that has one end.

use crate::values::{Kind, Stream, every_type};
use commonware_codec::{DecodeExt as _, Encode as _, EncodeSize as _};
use opengpu_types::{Block, Header, List, NetworkAddress, SeatSet, Transaction};
use proptest::{collection::vec, prelude::*, sample::Index};
use std::net::SocketAddr;

/// Longer than the longest value that a stream makes.
const STREAM: usize = 4_096;

/// Streams of which short ones are as likely as long ones.
fn streams() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![vec(any::<u8>(), 0..64), vec(any::<u8>(), STREAM..=STREAM)]
}

/// Bytes either are no value, or are the one encoding of a value.
fn is_canonical(kind: &Kind, bytes: &[u8]) {
    if let Ok(again) = (kind.decode)(bytes) {
        assert_eq!(again, bytes, "{} has a second encoding", kind.name);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_value_survives_its_encoding(stream in streams()) {
        for kind in every_type() {
            (kind.survives)(&mut Stream::new(&stream));
        }
    }

    #[test]
    fn no_encoding_can_be_cut_or_extended(stream in streams(), extra: u8) {
        for kind in every_type() {
            let mut bytes = (kind.encode)(&mut Stream::new(&stream));
            for end in 0..bytes.len() {
                assert!((kind.decode)(&bytes[..end]).is_err(), "{} cut to {end}", kind.name);
            }
            bytes.push(extra);
            assert!((kind.decode)(&bytes).is_err(), "{} with a byte more", kind.name);
        }
    }

    #[test]
    fn a_changed_encoding_is_refused_or_of_another_value(
        stream in streams(), place: Index, byte: u8,
    ) {
        for kind in every_type() {
            let mut bytes = (kind.encode)(&mut Stream::new(&stream));
            let place = place.index(bytes.len());
            bytes[place] = byte;
            is_canonical(&kind, &bytes);
            bytes.insert(place, byte);
            is_canonical(&kind, &bytes);
            bytes.drain(place..bytes.len().min(place + 2));
            is_canonical(&kind, &bytes);
        }
    }

    #[test]
    fn arbitrary_bytes_are_no_value_or_its_one_encoding(
        mut bytes in vec(any::<u8>(), 0..300), tag in 0u8..32,
    ) {
        for kind in every_type() {
            is_canonical(&kind, &bytes);
        }
        if let Some(first) = bytes.first_mut() {
            *first = tag;
        }
        for kind in every_type() {
            is_canonical(&kind, &bytes);
        }
    }

    #[test]
    fn a_network_address_is_its_ip_and_port_and_nothing_else(socket: SocketAddr) {
        let address = NetworkAddress(socket);
        prop_assert_eq!(NetworkAddress::decode(address.encode()).unwrap(), address);
        prop_assert_eq!(address.to_string().parse::<NetworkAddress>().unwrap(), address);
    }
}

#[test]
fn the_zone_of_an_ipv6_address_is_not_part_of_a_network_address() {
    let parse = |text: &str| text.parse::<NetworkAddress>().unwrap();
    let (zoned, plain) = (parse("[fe80::1%3]:80"), parse("[fe80::1]:80"));
    assert_eq!(zoned, plain);
    assert_eq!(zoned.cmp(&plain), std::cmp::Ordering::Equal);
    assert_eq!(zoned.encode(), plain.encode());
    assert_eq!(zoned.to_string(), "[fe80::1]:80");
    assert_ne!(plain, parse("[fe80::1]:81"));
    assert_ne!(plain, parse("[fe80::2]:80"));
}

#[test]
fn the_unknown_tag_after_the_last_variant_is_refused() {
    let enums = every_type().into_iter().filter(|kind| kind.variants > 1);
    for kind in enums.filter(|kind| kind.name != "NetworkAddress") {
        let tag = u8::try_from(kind.variants).unwrap();
        let error = (kind.decode)(&[tag; 256]).unwrap_err();
        let expected = commonware_codec::Error::InvalidEnum(tag);
        assert_eq!(error.to_string(), expected.to_string(), "{}", kind.name);
    }
}

#[test]
fn a_list_one_longer_than_its_limit_is_refused_inside_its_type() {
    let transaction: Transaction = Stream::new(&[]).take();
    let with = |count: usize| {
        let burn = || opengpu_types::Operation::Unjail;
        let operations = (0..count).map(|_| burn()).collect::<Vec<_>>();
        let bytes = transaction.encode();
        // Without operations and memo both are one zero byte at the end.
        let head = &bytes[..bytes.len() - 2];
        [head, &operations.encode()[..], &[0]].concat()
    };
    assert!(Transaction::decode(with(Transaction::MAX_OPERATIONS)).is_ok());
    assert!(Transaction::decode(with(Transaction::MAX_OPERATIONS + 1)).is_err());
}

#[test]
fn the_largest_header_is_within_its_limit() {
    let header: Header = Stream::new(&[0xff; 1_024]).take();
    assert!(header.upgrade.is_some());
    assert!(header.encode_size() <= Header::MAX_SIZE);
}

#[test]
fn a_full_seat_set_and_the_smallest_full_block_can_be_decoded() {
    let seat = Stream::new(&[7; 512]).take::<opengpu_types::Seat>();
    let seats = List::new(vec![seat; SeatSet::MAX]).unwrap();
    let set = SeatSet { seats, ..Stream::new(&[]).take() };
    assert_eq!(SeatSet::decode(set.encode()).unwrap(), set);

    let transactions = List::new(vec![Stream::new(&[]).take(); Block::MAX_TRANSACTIONS]).unwrap();
    let block = Block { transactions, ..Stream::new(&[]).take() };
    assert!(block.encode_size() <= Block::MAX_SIZE);
    assert_eq!(Block::decode(block.encode()).unwrap(), block);
}
