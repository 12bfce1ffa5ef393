//! Sections of a file, compressed or not. A compressed section's own length is trusted up to a
//! bound only, and no output ever becomes longer.

use std::borrow::Cow;
use std::io::Read;

use object::{CompressionFormat, Object, ObjectSection};

/// No section may become larger.
const MOST_BYTES: u64 = 1 << 30;
/// No section may become larger than this many times its bytes in the file (zlib's own limit is
/// 1032), beyond the first mebibytes.
const MOST_TIMES: u64 = 1100;
const ALWAYS: u64 = 8 << 20;
/// Memory of the decoder of xz, in KiB: the preset -9 needs 65 MiB.
const XZ_KIB: u32 = 80 << 10;

/// The content of a section: plain, `SHF_COMPRESSED` with zlib or zstd (System V gABI,
/// *Section Compression*), or GNU's older `.zdebug_` form, which is asked for by the plain name.
pub(crate) fn section<'a>(file: &object::File<'a>, name: &str) -> Option<Cow<'a, [u8]>> {
    let data = find(file, name)?.compressed_data().ok()?;
    let size = data.uncompressed_size;
    let stored = data.data.len() as u64;
    let plausible = size <= MOST_BYTES && size <= ALWAYS.max(stored.saturating_mul(MOST_TIMES));
    let whole = |reader: &mut dyn Read| {
        let mut bytes = Vec::new();
        reader.take(size).read_to_end(&mut bytes).ok()?;
        (bytes.len() as u64 == size).then_some(Cow::Owned(bytes))
    };
    match data.format {
        CompressionFormat::None => Some(Cow::Borrowed(data.data)),
        _ if !plausible => None,
        CompressionFormat::Zlib => whole(&mut flate2::read::ZlibDecoder::new(data.data)),
        CompressionFormat::Zstandard => {
            whole(&mut zstd::stream::read::Decoder::with_buffer(data.data).ok()?)
        }
        _ => None,
    }
}

/// The section of this name, or of its name in GNU's older form of compression.
pub(crate) fn find<'a, 'f>(
    file: &'f object::File<'a>,
    name: &str,
) -> Option<object::Section<'a, 'f>> {
    file.section_by_name(name)
        .or_else(|| file.section_by_name(&format!(".z{}", name.strip_prefix('.')?)))
}

/// The ELF file within `.gnu_debugdata`: names of functions that are not exported.
pub(crate) fn mini(file: &object::File<'_>) -> Option<Vec<u8>> {
    let data = section(file, ".gnu_debugdata")?;
    let most = ALWAYS.max((data.len() as u64).saturating_mul(MOST_TIMES));
    let reader = lzma_rust2::XzReader::new_mem_limit(&*data, false, XZ_KIB);
    let mut bytes = Vec::new();
    reader.take(most).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
