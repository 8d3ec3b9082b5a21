//! Machine code kept on disk between processes, so that a kernel is compiled once a machine.
//!
//! One file an entry, named by the key, which is a hash of everything that decides the code. Layout of a file:
//!
//! ```text
//! "tracea cubin 1\n"   SHA-256 of the rest   length of the log, u64 little-endian   log   cubin
//! ```
//!
//! Files appear whole, by rename, so that processes share a folder without locks: the worst that two of them do is the same work.
//! An entry whose checksum disagrees does not count. The least recently used go when the folder outgrows its limit. A folder that
//! cannot be written costs time, never a failure.

use sha2::{Digest, Sha256};
use std::env::var_os;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

const MAGIC: &[u8] = b"tracea cubin 1\n";
const CHECKSUM: usize = 32;
const EXTENSION: &str = "cubin";
const DEFAULT_LIMIT_MIB: u64 = 512;
/// A temporary file this old was left by a process that died.
const ABANDONED: Duration = Duration::from_secs(3600);

/// Names an entry.
pub(crate) struct CacheKey(String);

impl CacheKey {
    /// The parts stay apart: moving a byte from one to the next gives another key.
    pub fn new<'a>(parts: impl Iterator<Item = &'a str>) -> CacheKey {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        CacheKey(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub cubin: Vec<u8>,
    pub log: String,
}

pub(crate) struct Cache {
    folder: PathBuf,
    limit_bytes: u64,
}

impl Cache {
    /// `TRACEA_CACHE` (empty: none), else the platform's folder; `TRACEA_CACHE_LIMIT` in MiB.
    pub fn from_environment() -> Option<Cache> {
        let folder = match var_os("TRACEA_CACHE") {
            Some(folder) if folder.is_empty() => return None,
            Some(folder) => PathBuf::from(folder),
            None => platform_folder()?.join("tracea"),
        };
        let limit = var_os("TRACEA_CACHE_LIMIT").and_then(|limit| limit.to_str()?.trim().parse().ok());
        Some(Cache { folder, limit_bytes: limit.unwrap_or(DEFAULT_LIMIT_MIB).saturating_mul(1 << 20) })
    }

    pub fn get(&self, key: &CacheKey) -> Option<Entry> {
        let path = self.path(key);
        let entry = decode(&fs::read(&path).ok()?)?;
        // The time of last use, which eviction goes by. Only a convenience where the folder is not ours.
        if let Ok(file) = fs::File::options().append(true).open(&path) {
            let _ = file.set_modified(SystemTime::now());
        }
        Some(entry)
    }

    pub fn put(&self, key: &CacheKey, entry: &Entry) {
        if self.write(key, entry).is_ok() {
            self.evict();
        }
    }

    fn write(&self, key: &CacheKey, entry: &Entry) -> std::io::Result<()> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        fs::create_dir_all(&self.folder)?;
        let process = std::process::id();
        let temporary = self.folder.join(format!("{}.{process}.{}.tmp", key.0, NEXT.fetch_add(1, Ordering::Relaxed)));
        let mut file = fs::File::create_new(&temporary)?;
        let written = file.write_all(&encode(entry)).and_then(|()| fs::rename(&temporary, self.path(key)));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    fn evict(&self) {
        let Ok(files) = fs::read_dir(&self.folder) else { return };
        let mut entries = Vec::new();
        for file in files.flatten() {
            let (path, Ok(about)) = (file.path(), file.metadata()) else { continue };
            let used = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            match path.extension().and_then(|extension| extension.to_str()) {
                Some(EXTENSION) => entries.push((used, about.len(), path)),
                Some("tmp") if used.elapsed().is_ok_and(|age| age > ABANDONED) => {
                    let _ = fs::remove_file(&path);
                }
                _ => {}
            }
        }
        let mut total: u64 = entries.iter().map(|(_, bytes, _)| bytes).sum();
        if total <= self.limit_bytes {
            return;
        }
        // Somewhat below the limit, so that a full cache is not scanned for every entry.
        let goal = self.limit_bytes / 4 * 3;
        entries.sort();
        for (_, bytes, path) in entries {
            if total <= goal {
                break;
            }
            let _ = fs::remove_file(path);
            total -= bytes;
        }
    }

    fn path(&self, key: &CacheKey) -> PathBuf {
        self.folder.join(&key.0).with_extension(EXTENSION)
    }
}

fn platform_folder() -> Option<PathBuf> {
    let home = || var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    if cfg!(windows) {
        return var_os("LOCALAPPDATA").map(PathBuf::from);
    }
    if cfg!(target_os = "macos") {
        return Some(home()?.join("Library/Caches"));
    }
    let cache = var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|cache| cache.is_absolute());
    Some(cache.unwrap_or(Path::new(&home()?).join(".cache")))
}

fn encode(entry: &Entry) -> Vec<u8> {
    let mut rest = (entry.log.len() as u64).to_le_bytes().to_vec();
    rest.extend_from_slice(entry.log.as_bytes());
    rest.extend_from_slice(&entry.cubin);
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&Sha256::digest(&rest));
    bytes.extend_from_slice(&rest);
    bytes
}

fn decode(bytes: &[u8]) -> Option<Entry> {
    let (checksum, rest) = bytes.strip_prefix(MAGIC)?.split_at_checked(CHECKSUM)?;
    if Sha256::digest(rest).as_slice() != checksum {
        return None;
    }
    let (length, rest) = rest.split_first_chunk::<8>()?;
    let (log, cubin) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    Some(Entry { cubin: cubin.to_vec(), log: String::from_utf8(log.to_vec()).ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(Cache);

    impl Folder {
        fn new(name: &str, limit_bytes: u64) -> Folder {
            let folder = std::env::temp_dir().join(format!("tracea-cache-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            Folder(Cache { folder, limit_bytes })
        }

        fn files(&self) -> Vec<PathBuf> {
            fs::read_dir(&self.0.folder).unwrap().map(|file| file.unwrap().path()).collect()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0.folder);
        }
    }

    fn key(name: &str) -> CacheKey {
        CacheKey::new([name].into_iter())
    }

    fn entry(byte: u8, bytes: usize) -> Entry {
        Entry { cubin: vec![byte; bytes], log: format!("log of {byte}") }
    }

    #[test]
    fn an_entry_comes_back_as_it_was_put() {
        let folder = Folder::new("round", 1 << 20);
        assert_eq!(folder.0.get(&key("a")), None);
        folder.0.put(&key("a"), &entry(1, 100));
        folder.0.put(&key("b"), &Entry { cubin: Vec::new(), log: String::new() });
        assert_eq!(folder.0.get(&key("a")), Some(entry(1, 100)));
        assert_eq!(folder.0.get(&key("b")), Some(Entry { cubin: Vec::new(), log: String::new() }));
        assert_eq!(folder.files().len(), 2);
    }

    #[test]
    fn parts_of_a_key_stay_apart() {
        assert_ne!(CacheKey::new(["ab", "c"].into_iter()).0, CacheKey::new(["a", "bc"].into_iter()).0);
        assert_ne!(CacheKey::new(["ab"].into_iter()).0, CacheKey::new(["ab", ""].into_iter()).0);
    }

    #[test]
    fn a_damaged_entry_is_not_trusted_and_is_replaced() {
        let folder = Folder::new("damage", 1 << 20);
        let path = folder.0.path(&key("a"));
        folder.0.put(&key("a"), &entry(1, 100));
        let whole = fs::read(&path).unwrap();
        for position in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[position] ^= 0x10;
            fs::write(&path, &damaged).unwrap();
            assert_eq!(folder.0.get(&key("a")), None, "byte {position} flipped");
            fs::write(&path, &whole[..position]).unwrap();
            assert_eq!(folder.0.get(&key("a")), None, "cut at {position}");
        }
        folder.0.put(&key("a"), &entry(1, 100));
        assert_eq!(folder.0.get(&key("a")), Some(entry(1, 100)));
    }

    #[test]
    fn the_least_recently_used_go_first() {
        let folder = Folder::new("bound", 5000);
        for number in 0..4u8 {
            folder.0.put(&key(&number.to_string()), &entry(number, 1000));
            let file = fs::File::options().append(true).open(folder.0.path(&key(&number.to_string()))).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(1000 - u64::from(number))).unwrap();
        }
        assert!(folder.0.get(&key("0")).is_some(), "used, so that it is the newest now");
        folder.0.put(&key("4"), &entry(4, 1000));
        let kept: Vec<bool> = (0..5).map(|number| folder.0.get(&key(&number.to_string())).is_some()).collect();
        assert_eq!(kept, [true, false, false, true, true]);
    }

    #[test]
    fn what_a_dead_process_left_is_removed() {
        let folder = Folder::new("abandoned", 10);
        fs::create_dir_all(&folder.0.folder).unwrap();
        let old = folder.0.folder.join("x.1.1.tmp");
        fs::File::create(&old).unwrap().set_modified(SystemTime::now() - 2 * ABANDONED).unwrap();
        fs::File::create(folder.0.folder.join("y.1.1.tmp")).unwrap();
        folder.0.put(&key("a"), &entry(1, 100));
        let left: Vec<String> =
            folder.files().iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
        assert_eq!(left, ["y.1.1.tmp"]);
    }

    fn write_and_read(cache: &Cache, writer: usize) {
        for round in 0..50 {
            cache.put(&key(&(round % 5).to_string()), &entry((round % 5) as u8, 20_000));
            let other = (round + writer) % 5;
            if let Some(found) = cache.get(&key(&other.to_string())) {
                assert_eq!(found, entry(other as u8, 20_000));
            }
        }
    }

    #[test]
    fn threads_never_see_half_an_entry() {
        let folder = Folder::new("threads", 1 << 22);
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let cache = &folder.0;
                scope.spawn(move || write_and_read(cache, writer));
            }
        });
        assert_eq!(folder.files().len(), 5);
    }

    /// Runs itself as several processes, which know their part by a variable.
    #[test]
    fn processes_never_see_half_an_entry() {
        const SHARED: &str = "TRACEA_CACHE_TEST_FOLDER";
        if let Some(folder) = var_os(SHARED) {
            return write_and_read(&Cache { folder: folder.into(), limit_bytes: 70_000 }, std::process::id() as usize);
        }
        let folder = Folder::new("processes", 1 << 22);
        let start = |_| {
            let mut program = std::process::Command::new(std::env::current_exe().unwrap());
            program.args(["--exact", "cuda::cache::tests::processes_never_see_half_an_entry"]);
            program.env(SHARED, &folder.0.folder).stdout(std::process::Stdio::null()).spawn().unwrap()
        };
        let processes: Vec<_> = (0..4).map(start).collect();
        for mut process in processes {
            assert!(process.wait().unwrap().success());
        }
        assert!(folder.files().len() <= 5 && !folder.files().is_empty());
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_no_failure() {
        let folder = Folder::new("file", 1 << 20);
        fs::write(&folder.0.folder, "a file where the folder would be").unwrap();
        folder.0.put(&key("a"), &entry(1, 100));
        assert_eq!(folder.0.get(&key("a")), None);
        fs::remove_file(&folder.0.folder).unwrap();
    }
}
