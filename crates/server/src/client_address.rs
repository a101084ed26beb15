//! The address of the client behind a request: the peer of its connection, or, where the peer is a trusted
//! proxy, the address that the proxy forwards. Forwarding headers of other peers are ignored.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use axum::http::{HeaderMap, header};

use crate::headers::X_FORWARDED_FOR;

/// An IP network, as in `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpNetwork {
    /// Any address of the network.
    pub address: IpAddr,
    /// The number of leading bits that its addresses share: at most 32 for IPv4, 128 for IPv6.
    pub prefix: u8,
}

impl IpNetwork {
    fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let difference = u32::from(own) ^ u32::from(other);
                difference.checked_shr(32 - u32::from(self.prefix)).unwrap_or(0) == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let difference = u128::from(own) ^ u128::from(other);
                difference.checked_shr(128 - u32::from(self.prefix)).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

/// The address of the client that sent a request. Each proxy appends the address that it forwards for, so the
/// list is read from its end, for as long as the address that wrote the next entry is trusted.
pub(crate) fn client_address(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNetwork]) -> IpAddr {
    let is_trusted = |address: IpAddr| trusted.iter().any(|network| network.contains(address));
    let mut client = peer.to_canonical();
    let mut forwarded = forwarded_addresses(headers).into_iter().rev();
    while is_trusted(client) {
        let Some(Some(previous)) = forwarded.next() else { break };
        client = previous;
    }
    client
}

/// The address that stands for one client in the rate limit: in IPv6 a client owns a /64 network, so its last
/// 64 bits are cleared.
pub(crate) fn rate_limit_key(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from(u128::from(address) >> 64 << 64)),
    }
}

/// The addresses that proxies forwarded, in the order they were added; `None` for an entry without a valid
/// address. A proxy writes one of the two headers and passes on the other as the client sent it, so where
/// both are present only the usual one, `X-Forwarded-For`, is read.
fn forwarded_addresses(headers: &HeaderMap) -> Vec<Option<IpAddr>> {
    let texts = |name| headers.get_all(name).iter().map(|value| value.to_str().unwrap_or_default());
    if headers.contains_key(X_FORWARDED_FOR) {
        texts(X_FORWARDED_FOR).flat_map(|text| text.split(',')).map(parse_address).collect()
    } else {
        texts(header::FORWARDED).flat_map(|text| text.split(',')).map(forwarded_for).collect()
    }
}

/// The address in an entry such as `for="[2001:db8::1]:4711";proto=https`.
fn forwarded_for(entry: &str) -> Option<IpAddr> {
    let pairs = entry.split(';').filter_map(|pair| pair.split_once('='));
    let mut values = pairs.filter(|(name, _)| name.trim().eq_ignore_ascii_case("for"));
    values.next().and_then(|(_, value)| parse_address(value))
}

/// Parses an address with or without a port, brackets and quotes.
fn parse_address(text: &str) -> Option<IpAddr> {
    let text = text.trim().trim_matches('"');
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse().or_else(|_| text.parse().map(|address: SocketAddr| address.ip()));
    address.ok().map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use testing::fuzz_text;

    use super::*;

    fn network(text: &str) -> IpNetwork {
        let (address, prefix) = text.split_once('/').unwrap();
        IpNetwork { address: address.parse().unwrap(), prefix: prefix.parse().unwrap() }
    }

    fn check(peer: &str, headers: &[(HeaderName, &'static str)], expected: &str) {
        let headers: HeaderMap =
            headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect();
        let trusted = [network("10.0.0.0/8"), network("::1/128"), network("192.0.2.7/32")];
        let found = client_address(peer.parse().unwrap(), &headers, &trusted);
        assert_eq!(found, expected.parse::<IpAddr>().unwrap(), "{peer} {headers:?}");
    }

    #[test]
    fn forwarding_headers_count_only_from_trusted_proxies() {
        let xff = |value| [(X_FORWARDED_FOR, value)];
        check("203.0.113.5", &xff("198.51.100.1"), "203.0.113.5");
        check("10.1.2.3", &xff("198.51.100.1"), "198.51.100.1");
        check("::ffff:10.1.2.3", &xff("198.51.100.1"), "198.51.100.1");
        check("10.1.2.3", &xff("1.1.1.1, 198.51.100.1, 10.9.9.9"), "198.51.100.1");
        check("10.1.2.3", &xff("10.0.0.1, 10.0.0.2"), "10.0.0.1");
        check("10.1.2.3", &xff("198.51.100.1, unknown"), "10.1.2.3");
        check("10.1.2.3", &[], "10.1.2.3");
        check("::1", &xff("[2001:db8::5]:4711"), "2001:db8::5");
        check("::1", &xff("198.51.100.1:80"), "198.51.100.1");
    }

    #[test]
    fn either_header_is_read_from_several_lines() {
        let forwarded = |value| (header::FORWARDED, value);
        check("10.1.2.3", &[forwarded("for=198.51.100.1;proto=https")], "198.51.100.1");
        check("10.1.2.3", &[forwarded("proto=https;For=\"[2001:db8::5]:47\"")], "2001:db8::5");
        check("10.1.2.3", &[forwarded("for=_hidden")], "10.1.2.3");
        check(
            "10.1.2.3",
            &[forwarded("for=1.1.1.1, for=198.51.100.1"), forwarded("for=10.0.0.9")],
            "198.51.100.1",
        );
        check("10.1.2.3", &[forwarded("for=1.1.1.1"), (X_FORWARDED_FOR, "198.51.100.1")], "198.51.100.1");
    }

    #[test]
    fn a_network_contains_the_addresses_that_share_its_prefix() {
        for (net, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.1"),
            ("192.0.2.7/32", "192.0.2.7", "192.0.2.6"),
            ("0.0.0.0/0", "203.0.113.5", "::1"),
            ("fd00::/8", "fd12::1", "fe00::1"),
            ("::/0", "2001:db8::1", "203.0.113.5"),
            ("::1/128", "::1", "::2"),
        ] {
            let net = network(net);
            assert!(
                net.contains(inside.parse().unwrap()) && !net.contains(outside.parse().unwrap()),
                "{net:?}"
            );
        }
    }

    #[test]
    fn an_ipv6_network_of_64_bits_is_one_client() {
        let key = |text: &str| rate_limit_key(text.parse().unwrap());
        assert_eq!(key("2001:db8:1:2::5"), key("2001:db8:1:2:ffff::6"));
        assert_ne!(key("2001:db8:1:2::5"), key("2001:db8:1:3::5"));
        assert_ne!(key("203.0.113.5"), key("203.0.113.6"));
    }

    #[test]
    fn fuzz_forwarding_headers() {
        let seeds = [
            "198.51.100.1, 10.9.9.9",
            "for=192.0.2.60;proto=http;by=203.0.113.43, for=198.51.100.17",
            "for=\"[2001:db8:cafe::17]:4711\"",
            "::ffff:10.0.0.1, [::1]:80, unknown",
        ];
        let trusted = [network("10.0.0.0/8"), network("::1/128"), network("0.0.0.0/0"), network("::/0")];
        fuzz_text(&seeds, &["for=", "\"", "[", "]", ":", ",", ";", "::", "/128"], |text| {
            let Ok(value) = HeaderValue::from_str(text) else { return };
            for name in [X_FORWARDED_FOR, header::FORWARDED] {
                let headers = HeaderMap::from_iter([(name, value.clone())]);
                let peer = "203.0.113.5".parse().unwrap();
                rate_limit_key(client_address(peer, &headers, &trusted));
                assert_eq!(
                    client_address(peer, &headers, &trusted[..2]),
                    peer,
                    "an untrusted peer cannot forward"
                );
            }
        });
    }
}
