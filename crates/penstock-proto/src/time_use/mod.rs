//! The time that threads of a transfer spend on each activity.
//!
//! A thread keeps a [`TimeUse`] of its own, adds to it at the edges of each activity, and hands it
//! on now and then. So no chunk takes a lock or writes a cache line that other threads read. A
//! source sends the time of a lane over that lane as a [`LaneTimes`], and the target adds it up.

pub mod bottleneck;

use std::ops::{AddAssign, Index};

use crate::wire::{DecodeError, Reader, Writer};

macro_rules! activities {
    ($($(#[$doc:meta])* $name:ident $number:literal $text:literal,)+) => {
        /// An activity of a thread, or the reason for which it waits.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Activity {
            $($(#[$doc])* $name = $number,)+
        }

        impl Activity {
            /// All activities, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Returns whether it is a part of the others: processor time.
            pub fn is_part(self) -> bool {
                matches!(self, Self::Cpu | Self::CpuWait)
            }

            /// Returns its name, as in JSON and in metrics.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }
        }
    };
}

activities! {
    /// Source: bytes of files are read.
    Read 0 "read",
    /// Source: bytes are hashed.
    Hash 1 "hash",
    /// Source: records are encrypted, or authenticated.
    Seal 2 "seal",
    /// The kernel takes bytes for the network; it blocks while the network does not take them.
    Send 3 "send",
    /// Target: the bytes of a frame that has begun to arrive are taken from the kernel.
    Receive 4 "receive",
    /// Target: records are decrypted and checked.
    Open 5 "open",
    /// Target: bytes are hashed and compared with the digest of the source.
    Compare 6 "compare",
    /// Target: bytes are written to files.
    Write 7 "write",
    /// Files are opened, looked at, made, given attributes, closed.
    Metadata 8 "metadata",
    /// Target: data is made durable.
    Sync 9 "sync",
    /// Target: complete files get their names, in a thread beside the lanes.
    Publish 10 "publish",
    /// Target: a lane waits for an answer of the source.
    WaitSource 11 "wait_source",
    /// Source: a lane waits for a request of the target.
    WaitTarget 12 "wait_target",
    /// Target: nothing is left to ask for until the controller grants more.
    WaitGrant 13 "wait_grant",
    /// Target: nothing is left to ask for until what was written is durable and has its names.
    WaitDisk 14 "wait_disk",
    /// A limit that a user has set makes the thread sleep.
    WaitLimit 15 "wait_limit",
    /// All buffers are in use.
    WaitMemory 16 "wait_memory",
    /// Target: a lane has nothing to do, as others do all that there is.
    Idle 17 "idle",
    /// The rest of the thread's time.
    Other 18 "other",
    /// Processor time of the thread, a part of all of the above.
    Cpu 19 "cpu",
    /// Time in which the thread could run and got no processor, likewise.
    CpuWait 20 "cpu_wait",
}

/// Number of activities.
const COUNT: usize = Activity::ALL.len();

/// Nanoseconds by activity. Sums stay exact for 580 years of one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeUse([u64; COUNT]);

impl TimeUse {
    /// Adds nanoseconds to an activity.
    pub fn add(&mut self, activity: Activity, nanoseconds: u64) {
        let sum = &mut self.0[activity as usize];
        *sum = sum.saturating_add(nanoseconds);
    }

    /// Returns all of it, and leaves nothing.
    pub fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    /// Returns the sum of some activities.
    pub fn of(&self, activities: &[Activity]) -> u64 {
        activities.iter().fold(0, |sum, &activity| sum.saturating_add(self[activity]))
    }

    /// Returns the time of the thread that is accounted for: all but processor time, which is a
    /// part of it.
    pub fn accounted(&self) -> u64 {
        let all = Activity::ALL.iter().filter(|activity| !activity.is_part());
        all.fold(0, |sum, &activity| sum.saturating_add(self[activity]))
    }

    /// Returns the difference to an earlier state of the same sums.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = *self;
        since.0.iter_mut().zip(earlier.0).for_each(|(sum, then)| *sum = sum.saturating_sub(then));
        since
    }

    /// Returns the activities that have any time, with their nanoseconds.
    pub fn parts(&self) -> impl Iterator<Item = (Activity, u64)> + '_ {
        let all = Activity::ALL.iter().map(|&activity| (activity, self[activity]));
        all.filter(|(_, nanoseconds)| *nanoseconds > 0)
    }
}

impl Index<Activity> for TimeUse {
    type Output = u64;

    fn index(&self, activity: Activity) -> &u64 {
        &self.0[activity as usize]
    }
}

impl AddAssign<&Self> for TimeUse {
    fn add_assign(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, more)| *sum = sum.saturating_add(more));
    }
}

/// The body of a frame *times*: the time of one lane's thread at the source since the last such
/// frame of the lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneTimes {
    /// Processors that the source's peer may use; 0 if that is not known.
    pub cores: u16,
    /// The time.
    pub time: TimeUse,
}

impl LaneTimes {
    /// Returns the body of the frame.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new();
        out.u16(self.cores);
        // Fewer than 256: the numbers of activities are bytes.
        out.u8(self.time.parts().count() as u8);
        for (activity, nanoseconds) in self.time.parts() {
            out.u8(activity as u8);
            out.u64(nanoseconds);
        }
        out.into_bytes()
    }

    /// Reads a body. Activities that this build does not know count as [`Activity::Other`].
    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        let mut input = Reader::new(body);
        let mut times = Self { cores: input.u16("cores")?, time: TimeUse::default() };
        for _ in 0..input.u8("activities")? {
            let number = input.u8("activity")?;
            let known = Activity::ALL.get(usize::from(number)).copied();
            times.time.add(known.unwrap_or(Activity::Other), input.u64("nanoseconds")?);
        }
        input.finish()?;
        Ok(times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: an activity's number is its place, so that two releases mean the same by it, and no
    /// two have one name.
    #[test]
    fn activities_are_told_by_their_numbers() {
        for (place, activity) in Activity::ALL.iter().enumerate() {
            assert_eq!(*activity as usize, place);
            let same = Activity::ALL.iter().filter(|other| other.name() == activity.name());
            assert_eq!(same.count(), 1, "{}", activity.name());
        }
    }

    /// Promise: the time of a lane arrives as it was spent; an activity of a later release counts
    /// as other; a body that is cut, or too long, is an error.
    #[test]
    fn lane_times_travel() {
        let mut times = LaneTimes { cores: 8, ..LaneTimes::default() };
        times.time.add(Activity::Read, 7);
        times.time.add(Activity::CpuWait, u64::MAX);
        let bytes = times.encode();
        assert_eq!(LaneTimes::decode(&bytes), Ok(times));
        for end in 0..bytes.len() {
            assert!(LaneTimes::decode(&bytes[..end]).is_err());
        }
        assert!(LaneTimes::decode(&[bytes.as_slice(), &[0]].concat()).is_err());
        let mut later = bytes;
        later[3] = 200;
        let read = LaneTimes::decode(&later).unwrap();
        assert_eq!((read.time[Activity::Other], read.time[Activity::Read]), (7, 0));
    }

    /// Promise: sums never overflow, and processor time is not counted beside the activities that
    /// it is a part of.
    #[test]
    fn sums_are_of_wall_time() {
        let mut time = TimeUse::default();
        time.add(Activity::Read, 5);
        time.add(Activity::Cpu, 4);
        time.add(Activity::Idle, 1);
        assert_eq!((time.accounted(), time.of(&[Activity::Read, Activity::Cpu])), (6, 9));
        let mut more = time;
        more += &time;
        assert_eq!(more.since(&time), time);
        assert_eq!(time.since(&more), TimeUse::default());
        time.add(Activity::Read, u64::MAX);
        assert_eq!(time.take()[Activity::Read], u64::MAX);
        assert_eq!(time, TimeUse::default());
    }
}
