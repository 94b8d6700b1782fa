//! Whose an address is, where strangers are counted by it.

use std::net::IpAddr;

/// One host of IPv4, or the /64 that one site of IPv6 has to itself: whoever has one address of it has
/// all of them.
pub(crate) fn site(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = address.to_bits() >> 64 << 64;
            IpAddr::V6(network.into())
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_of_ipv6_is_one_and_a_mapped_address_is_the_one_it_maps() {
        for (address, expected) in [
            ("192.0.2.9", "192.0.2.9"),
            ("::ffff:192.0.2.9", "192.0.2.9"),
            ("2001:db8::1:2:3", "2001:db8::"),
            ("2001:db8:0:0:ffff::", "2001:db8::"),
            ("2001:db8:0:1::3", "2001:db8:0:1::"),
        ] {
            let [address, expected] = [address, expected].map(|a| a.parse::<IpAddr>().unwrap());
            assert_eq!(site(address), expected);
        }
    }
}
