//! How many connections each address holds, so that one stranger cannot take them all.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::site::site;

/// Open connections by address (of IPv6: by site); as many entries as connections at most.
#[derive(Debug, Clone)]
pub(super) struct Crowd {
    counts: Arc<Mutex<HashMap<IpAddr, usize>>>,
    max: usize,
}

impl Crowd {
    pub(super) fn new(max: usize) -> Self {
        Self {
            counts: Arc::default(),
            max,
        }
    }

    /// A place for a connection from there; `None` where the address has too many.
    pub(super) fn enter(&self, address: IpAddr) -> Option<Place> {
        let address = site(address);
        let mut counts = self.counts();
        let count = counts.entry(address).or_insert(0);
        if *count >= self.max {
            return None;
        }
        *count += 1;
        Some(Place {
            crowd: self.clone(),
            address,
        })
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Held by a connection.
#[derive(Debug)]
pub(super) struct Place {
    crowd: Crowd,
    address: IpAddr,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.crowd.counts();
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_its_own_places_and_leaves_nothing() {
        let crowd = Crowd::new(2);
        let [a, b, mapped, v6, neighbour] = [
            "192.0.2.1",
            "192.0.2.2",
            "::ffff:192.0.2.1",
            "2001:db8::1",
            "2001:db8::2",
        ]
        .map(|address| address.parse::<IpAddr>().unwrap());
        let held = [crowd.enter(a).unwrap(), crowd.enter(mapped).unwrap()];
        assert!(crowd.enter(a).is_none());
        drop(crowd.enter(b).unwrap());
        let site = [crowd.enter(v6).unwrap(), crowd.enter(neighbour).unwrap()];
        assert!(crowd.enter(v6).is_none());
        drop((held, site));
        assert!(crowd.counts().is_empty());
        assert!(crowd.enter(a).is_some());
    }
}
