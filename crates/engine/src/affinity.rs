//! Keeps the controller off the worker's processor during a run.

use landau_sys::system;

/// Moves this process to the other processors until it is dropped.
pub(crate) struct OtherProcessors(Option<Vec<u32>>);

impl OtherProcessors {
    /// Moves this process off `pinned`. Has no effect if there is no other processor.
    pub(crate) fn than(pinned: Option<u32>) -> Self {
        let all = system::processors();
        let others: Vec<u32> = all.iter().copied().filter(|&one| Some(one) != pinned).collect();
        if pinned.is_none() || others.is_empty() || system::pin(&others).is_err() {
            return Self(None);
        }
        Self(Some(all))
    }
}

impl Drop for OtherProcessors {
    fn drop(&mut self) {
        if let Some(all) = &self.0 {
            // On failure, the rest of this program is limited to fewer processors; no measurement is affected.
            let _ = system::pin(all);
        }
    }
}
