//! How much room each replica has for one more lease, and the largest room of all at any time: that
//! nobody fits has to be found after every turn, and must not take a look at every replica.

/// Rooms in tokens, as a tree in which each node is the larger of its two. `None`: not even nothing fits.
#[derive(Debug)]
pub(super) struct Rooms {
    tree: Vec<Option<u64>>,
    leaves: usize,
}

impl Rooms {
    pub(super) fn new(replicas: usize) -> Self {
        let leaves = replicas.next_power_of_two();
        Self {
            tree: vec![None; 2 * leaves],
            leaves,
        }
    }

    /// The replica's room is another.
    pub(super) fn set(&mut self, replica: usize, room: Option<u64>) {
        let mut at = self.leaves + replica;
        let mut larger = room;
        while self.tree[at] != larger {
            self.tree[at] = larger;
            if at == 1 {
                return;
            }
            larger = self.tree[at].max(self.tree[at ^ 1]);
            at /= 2;
        }
    }

    /// Whether a footprint fits on this replica.
    pub(super) fn fits(&self, replica: usize, footprint: u32) -> bool {
        self.tree[self.leaves + replica].is_some_and(|room| u64::from(footprint) <= room)
    }

    /// Whether it fits on any.
    pub(super) fn fits_somewhere(&self, footprint: u32) -> bool {
        self.tree[1].is_some_and(|room| u64::from(footprint) <= room)
    }
}

#[cfg(test)]
mod tests {
    use super::Rooms;

    #[test]
    fn the_largest_room_is_that_of_the_rooms() {
        for replicas in [1_usize, 2, 3, 7, 64] {
            let mut rooms = Rooms::new(replicas);
            let mut plain = vec![None; replicas];
            assert!(!rooms.fits_somewhere(0));
            for step in 0..500_u64 {
                let replica = (step * 7919 % replicas as u64) as usize;
                let room = (step % 5 != 0).then_some(step * 104_729 % 97);
                rooms.set(replica, room);
                plain[replica] = room;
                for footprint in [0, 1, 48, 96, 97] {
                    let fits = |room: &Option<u64>| room.is_some_and(|room| footprint <= room);
                    let footprint = footprint as u32;
                    assert_eq!(rooms.fits(replica, footprint), fits(&room));
                    assert_eq!(rooms.fits_somewhere(footprint), plain.iter().any(fits));
                }
            }
        }
    }
}
