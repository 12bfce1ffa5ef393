//! Translations kept from process to process, in files of the user's own: the translations of a
//! program's earlier run are there when it starts again (`relive_dbt`'s `snapshot` says
//! when they may be used). Everything here is an optimisation: a failure is passed over in
//! silence, and the program is translated anew. It must never trust a file that another user
//! could have written.

pub mod checked;
pub mod served;
pub mod store;

use std::fs::File;

use relive_dbt::Translator;
use relive_host::{GuestAddr, copy};

use self::store::{prune, put, store, user};
use crate::broker;
use crate::file_table::{CHECKED, FileTable, Stamp};
use crate::memory::Memory;
use crate::shm::shared as shm;

/// Fewer new fragments than this are worth a file only now and then: one run in [`SELDOM`], or
/// fewer still ([`worthwhile`]).
const FEW: u64 = 32;
const SELDOM: u64 = 8;
/// Files with more fragments than this are written for many new ones only.
const LARGE: u64 = 20_000;
/// Takes over the kept translations of a program, before its code is mapped. The translator must be
/// fresh or flushed. One process checks a file for its whole tree, and for later ones: it is
/// replaced as a whole, and never changed.
pub fn load(memory: &mut Memory, program: &[u8]) {
    let Some(store) = store() else { return };
    let key = memory.translator.key(program);
    let Some((file, meta)) = store.open(key) else {
        return;
    };
    let stamp = FileTable::stamp(&meta);
    let here = was_checked_here(stamp);
    let before = !here && checked::is_noted(store, key, stamp);
    match take_over(memory, key, &file, stamp, here || before) {
        // Damaged: it must not stand in the way of a better one.
        0 => drop(std::fs::remove_file(store.path(key))),
        _ if here || before => {}
        _ => checked::note(store, key, stamp),
    }
}

/// The same in a replay, which opens and writes nothing.
pub fn load_served(memory: &mut Memory, program: &[u8]) {
    let key = memory.translator.key(program);
    if let Some((file, checked)) = broker::translations(key)
        && let Some(stamp) = FileTable::stamp_of(&file)
    {
        let checked = checked || was_checked_here(stamp);
        take_over(memory, key, &file, stamp, checked);
    }
}

/// Whether a process of the tree has checked a file.
fn was_checked_here(stamp: Stamp) -> bool {
    shm().is_some_and(|shm| CHECKED.of(shm).find(stamp).is_some())
}

/// How many fragments a file has brought; then it is a checked one.
fn take_over(memory: &mut Memory, key: u128, file: &File, stamp: Stamp, checked: bool) -> u64 {
    let offered = memory.translator.load(key, file, checked);
    tracing::debug!(target: "dbt", "{offered} fragments taken over");
    if offered > 0
        && !was_checked_here(stamp)
        && let Some(shm) = shm()
    {
        CHECKED.of(shm).insert(stamp, [0; 32]);
    }
    offered
}

/// Keeps this process's translations, if they are many more than the kept ones.
pub fn save(memory: &Memory, program: &[u8]) {
    let translator = &memory.translator;
    let Some(store) = store().filter(|s| s.user == user()) else {
        return;
    };
    tracing::debug!(target: "dbt", "at the end: {:?}", translator.stats());
    // The number taken over is a hint of the number in the file, without a look at it.
    if !worthwhile(translator, translator.fresh(), translator.taken_over()) {
        return;
    }
    // Code that no file has, as that of the vDSO, is no reason to write one.
    let lasting = memory.lasting_code();
    let fresh = translator.fresh_in(&lasting);
    let key = translator.key(program);
    let there = store
        .open(key)
        .and_then(|(file, _)| Translator::offered(key, &file))
        .unwrap_or(0);
    if !worthwhile(translator, fresh, there) {
        return;
    }
    let mut read = |at, buf: &mut [u8]| copy::read(GuestAddr(at), buf).is_ok();
    if let Some(bytes) = translator.save(key, &lasting, &mut read) {
        put(&store.path(key), &bytes);
        prune(&store.folder);
    }
}

/// Whether a file with `there` fragments should be replaced, for so many new ones. A start that lacks a single
/// fragment pays for the decoder's tables, so that even a few are wanted in the end; but a thread
/// that has lost the processor in the middle of a fragment (and was stepped there) makes new ones in
/// every run, which no later run uses, and writing costs as much as there is to write.
fn worthwhile(translator: &Translator, fresh: u64, there: u64) -> bool {
    let here = fresh + translator.taken_over();
    if fresh == 0 || here <= there {
        return false;
    }
    let cut_short = translator.stats().step_fragments > 0;
    let seldom = match cut_short {
        true => (there / (8 * fresh)).max(SELDOM),
        false => SELDOM,
    };
    let now_and_then = u64::from(std::process::id()).is_multiple_of(seldom) && there < LARGE;
    fresh >= FEW && here >= there + there / 8 || now_and_then
}
