//! Who a request comes from: the other end of its connection, or whom a trusted proxy names. What anybody else says
//! about where a request comes from is not believed.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use axum::http::{HeaderMap, HeaderName, header};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The IP addresses that share their first bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// One of them.
    pub address: IpAddr,
    /// How many bits they share.
    pub prefix: u8,
}

impl Network {
    fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let apart = u32::from(own) ^ u32::from(other);
                apart.checked_shr(32 - u32::from(self.prefix)).unwrap_or(0) == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let apart = u128::from(own) ^ u128::from(other);
                apart.checked_shr(128 - u32::from(self.prefix)).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

/// The address of the client that sent a request. Proxies add whom they speak for at the end, so the list is read
/// from there, as long as whoever wrote the next entry is trusted.
pub(crate) fn client(peer: IpAddr, headers: &HeaderMap, trusted: &[Network]) -> IpAddr {
    let is_trusted = |address: IpAddr| trusted.iter().any(|network| network.contains(address));
    let mut client = peer.to_canonical();
    let mut named = named(headers).into_iter().rev();
    while is_trusted(client) {
        let Some(Some(before)) = named.next() else { break };
        client = before;
    }
    client
}

/// The part of an address that belongs to one client: in IPv6 everybody has a whole network of them.
pub(crate) fn place(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from(u128::from(address) >> 64 << 64)),
    }
}

/// Whom proxies name, in the order they were added; none for what is no address. A proxy writes one of the two
/// headers, and hands on the other as the client sent it: of both, the usual one is read.
fn named(headers: &HeaderMap) -> Vec<Option<IpAddr>> {
    let texts = |name| headers.get_all(name).iter().map(|value| value.to_str().unwrap_or_default());
    if headers.contains_key(X_FORWARDED_FOR) {
        texts(X_FORWARDED_FOR).flat_map(|text| text.split(',')).map(address).collect()
    } else {
        texts(header::FORWARDED).flat_map(|text| text.split(',')).map(forwarded_for).collect()
    }
}

/// Whom an entry such as `for="[2001:db8::1]:4711";proto=https` names.
fn forwarded_for(entry: &str) -> Option<IpAddr> {
    let pairs = entry.split(';').filter_map(|pair| pair.split_once('='));
    let mut named = pairs.filter(|(name, _)| name.trim().eq_ignore_ascii_case("for"));
    named.next().and_then(|(_, value)| address(value))
}

/// An address, with or without a port, brackets and quotes.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim().trim_matches('"');
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse().or_else(|_| text.parse().map(|address: SocketAddr| address.ip()));
    address.ok().map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use testing::fuzz_text;

    use super::*;

    fn network(text: &str) -> Network {
        let (address, prefix) = text.split_once('/').unwrap();
        Network { address: address.parse().unwrap(), prefix: prefix.parse().unwrap() }
    }

    fn check(peer: &str, headers: &[(HeaderName, &'static str)], expected: &str) {
        let headers: HeaderMap =
            headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect();
        let trusted = [network("10.0.0.0/8"), network("::1/128"), network("192.0.2.7/32")];
        let found = client(peer.parse().unwrap(), &headers, &trusted);
        assert_eq!(found, expected.parse::<IpAddr>().unwrap(), "{peer} {headers:?}");
    }

    #[test]
    fn only_what_trusted_proxies_say_is_believed() {
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
    fn proxies_may_write_either_header_on_several_lines() {
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
    fn a_network_is_known_by_its_first_bits() {
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
    fn a_client_with_a_network_of_its_own_is_one_client() {
        let at = |text: &str| place(text.parse().unwrap());
        assert_eq!(at("2001:db8:1:2::5"), at("2001:db8:1:2:ffff::6"));
        assert_ne!(at("2001:db8:1:2::5"), at("2001:db8:1:3::5"));
        assert_ne!(at("203.0.113.5"), at("203.0.113.6"));
    }

    #[test]
    fn fuzz_nearly_right_addresses() {
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
                place(client(peer, &headers, &trusted));
                assert_eq!(client(peer, &headers, &trusted[..2]), peer, "only proxies are believed");
            }
        });
    }
}
