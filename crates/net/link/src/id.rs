//! Who an endpoint is and how it is reached.
//!
//! An endpoint is its ed25519 key, which the chain knows; where it is reached is a relay. Addresses
//! of sockets are for machines in one network and are given by hand: a home address is published
//! nowhere.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use iroh::{EndpointAddr, RelayUrl};
use opengpu_crypto::{Digest, PublicKey};

/// The public key of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointId(pub [u8; 32]);

opengpu_types::codec_newtype!(EndpointId([u8; 32]));

impl EndpointId {
    /// The endpoint of a key on chain; only ed25519 keys have one.
    pub const fn of(key: &PublicKey) -> Option<Self> {
        match key {
            PublicKey::Ed25519(bytes) => Some(Self(*bytes)),
            PublicKey::Secp256k1(_) => None,
        }
    }
}

impl From<iroh::EndpointId> for EndpointId {
    fn from(id: iroh::EndpointId) -> Self {
        Self(*id.as_bytes())
    }
}

impl fmt::Display for EndpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Digest(self.0).fmt(f)
    }
}

impl fmt::Debug for EndpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How an endpoint is reached. As text: `ID@RELAY`, `ID@SOCKET`, or several behind the `@` with `,`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Whose it is; whoever answers must prove it.
    pub id: EndpointId,
    /// The relay on which it waits.
    pub relay: Option<RelayUrl>,
    /// Sockets of this machine or of a private network.
    pub direct: Vec<SocketAddr>,
}

/// Why something is not an address that is dialled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The id is not 64 hexadecimal digits, or no key.
    #[error("`{0}` is not the key of an endpoint")]
    Id(String),
    /// Neither a URL nor a socket.
    #[error("`{0}` is neither the URL of a relay nor the address of a socket")]
    Place(String),
    /// A relay in the open without TLS.
    #[error("the relay {0} has no TLS; only one on this machine may do without")]
    PlainRelay(String),
    /// A socket that is reached over the internet.
    #[error("{0} is a public address; endpoints are reached through their relay")]
    Public(SocketAddr),
}

impl Address {
    /// An endpoint on a relay.
    pub const fn on_relay(id: EndpointId, relay: RelayUrl) -> Self {
        Self { id, relay: Some(relay), direct: Vec::new() }
    }

    /// An endpoint on this machine or in this network.
    pub fn nearby(id: EndpointId, socket: SocketAddr) -> Self {
        Self { id, relay: None, direct: vec![socket] }
    }

    /// What the transport dials, if all of it may be dialled.
    pub(crate) fn checked(&self) -> Result<EndpointAddr, AddressError> {
        let id = iroh::EndpointId::from_bytes(&self.id.0)
            .map_err(|_| AddressError::Id(self.id.to_string()))?;
        let mut address = EndpointAddr::new(id);
        if let Some(relay) = &self.relay {
            check_relay(relay)?;
            address = address.with_relay_url(relay.clone());
        }
        for socket in &self.direct {
            if !is_near(socket.ip()) {
                return Err(AddressError::Public(*socket));
            }
            address = address.with_ip_addr(*socket);
        }
        Ok(address)
    }
}

/// A relay in the open has TLS. Sessions are encrypted beneath it, but who talks to whom is not.
pub(crate) fn check_relay(relay: &RelayUrl) -> Result<(), AddressError> {
    let here = relay.host_str().is_some_and(|host| {
        host == "localhost"
            || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    });
    match relay.scheme() {
        "https" => Ok(()),
        "http" if here => Ok(()),
        _ => Err(AddressError::PlainRelay(relay.to_string())),
    }
}

/// Whether an address belongs to this machine or a private network.
const fn is_near(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_loopback() || ip.is_private() || ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local(),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.id)?;
        let relay = self.relay.iter().map(ToString::to_string);
        let places = relay.chain(self.direct.iter().map(ToString::to_string));
        for (number, place) in places.enumerate() {
            write!(f, "{}{place}", if number == 0 { '@' } else { ',' })?;
        }
        Ok(())
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let (id, places) = text.split_once('@').unwrap_or((text, ""));
        let key = id.parse::<opengpu_types::ArtifactId>();
        let key = key.map_err(|_| AddressError::Id(id.to_owned()))?;
        let mut address = Self { id: EndpointId(key.0.0), relay: None, direct: Vec::new() };
        for place in places.split(',').filter(|place| !place.is_empty()) {
            match (place.parse::<SocketAddr>(), place.parse::<RelayUrl>()) {
                (Ok(socket), _) => address.direct.push(socket),
                (_, Ok(relay)) if address.relay.is_none() => address.relay = Some(relay),
                _ => return Err(AddressError::Place(place.to_owned())),
            }
        }
        address.checked()?;
        Ok(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opengpu_crypto::Keypair;

    fn id() -> EndpointId {
        EndpointId::of(&Keypair::ed25519([1; 32]).public_key()).unwrap()
    }

    #[test]
    fn an_address_reads_back_as_written() {
        for places in
            ["", "@https://relay.example/", "@127.0.0.1:9", "@http://127.0.0.1:1/,[::1]:2"]
        {
            let text = format!("{}{places}", id());
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn public_sockets_and_relays_without_tls_are_not_dialled() {
        let read = |places: &str| format!("{}@{places}", id()).parse::<Address>().unwrap_err();
        assert!(matches!(read("8.8.8.8:53"), AddressError::Public(_)));
        assert!(matches!(read("[2001:db8::1]:53"), AddressError::Public(_)));
        assert!(matches!(read("http://relay.example"), AddressError::PlainRelay(_)));
        assert!(matches!(read("ftp://127.0.0.1"), AddressError::PlainRelay(_)));
        assert!(matches!(read("somewhere"), AddressError::Place(_)));
        assert!(matches!(read("https://a.example,https://b.example"), AddressError::Place(_)));
    }

    #[test]
    fn only_ed25519_keys_are_endpoints() {
        let ethereum = Keypair::secp256k1([1; 32]).unwrap().public_key();
        assert_eq!(EndpointId::of(&ethereum), None);
        assert!("0".repeat(63).parse::<Address>().is_err());
    }
}
