"""Options of a transfer, as a request sends them and a view shows them."""

from .base import OpenEnum, View
from .place import PathText


class CipherSuite(OpenEnum):
    """A cipher suite of TLS 1.3."""

    AES128_GCM = "aes128-gcm"
    """AES-128-GCM, SHA-256: the fastest where the CPU has AES instructions."""
    AES256_GCM = "aes256-gcm"
    """AES-256-GCM, SHA-384: where a policy asks for 256 bits; a fifth more CPU than AES-128."""
    CHACHA20_POLY1305 = "chacha20-poly1305"
    """ChaCha20-Poly1305, SHA-256: the fastest where the CPU has none."""


class Encryption(OpenEnum):
    """Encryption of payload on the wire. The control channel is always encrypted."""

    TLS = "tls"
    """TLS 1.3."""
    OFF = "off"
    """Frames in clear, authenticated; with XXH3 the payload is not."""


class Durability(OpenEnum):
    """Policy that defines when a file counts as durable."""

    BATCH = "batch"
    """Data, sync, rename, sync of directories, in batches."""
    FSYNC = "fsync"
    """Same order with one fsync for each file."""
    NONE = "none"
    """No sync at all: a power cut may leave empty files under final names."""


class DigestKind(OpenEnum):
    """Hash that verifies the data of a transfer."""

    BLAKE3 = "blake3"
    """BLAKE3: detects accidents and attackers, yields standard file digests."""
    XXH3 = "xxh3-128"
    """XXH3-128: detects accidents only, yields no file digests."""


class ChecksumKind(OpenEnum):
    """A checksum of a whole file."""

    BLAKE3 = "blake3"
    """BLAKE3, 256 bits."""
    SHA256 = "sha256"
    """SHA-256."""
    SHA512 = "sha512"
    """SHA-512."""
    SHA1 = "sha1"
    """SHA-1: broken against attackers, kept for catalogues that have nothing else."""
    MD5 = "md5"
    """MD5: broken against attackers, kept for catalogues that have nothing else."""
    XXH128 = "xxh128"
    """XXH3, 128 bits: against accidents."""
    XXH3 = "xxh3"
    """XXH3, 64 bits: against accidents."""
    XXH64 = "xxh64"
    """XXH64: against accidents."""
    CRC32 = "crc32"
    """CRC-32 of IEEE 802.3, as in zip and gzip: against accidents."""
    CRC32C = "crc32c"
    """CRC-32C (Castagnoli), as in iSCSI and Google's stores: against accidents."""
    ADLER32 = "adler32"
    """Adler-32, as in zlib and most catalogues of physics: against accidents, weak for files
    below some hundred bytes.
    """


class IfExists(OpenEnum):
    """Treatment of an item whose name is taken at the target by something else."""

    REPLACE = "replace"
    """Replace it, in one step, when the new item is complete and durable."""
    SKIP = "skip"
    """Keep it, and count the item as skipped."""
    NEWER = "newer"
    """Replace it if the source's is modified later, else keep it."""
    FAIL = "fail"
    """Keep it, and count the item as failed."""


class CompareBy(OpenEnum):
    """Criterion that tells apart files of one size."""

    TIME = "time"
    """The time of last modification."""
    DIGEST = "digest"
    """The BLAKE3 of their content: both sides read all of them."""


class UpdateOptions(View):
    """Treatment of what exists at the target. The default replaces everything."""

    sync: bool = False
    """Leave what is the same as at the source: files of the same size and the same time of
    last modification, to the nanosecond, and links with the same text.
    """
    compare: CompareBy = CompareBy.TIME
    """Criterion by which `sync` tells apart files of one size."""
    if_exists: IfExists = IfExists.REPLACE
    """Treatment of an item that is not the same."""
    delete: bool = False
    """Delete at the target what is not at the source, once everything else is done."""
    max_delete: int | None = None
    """Delete at most this many items, or none if there are more; `None` refuses to delete more
    than half of what is at the target.
    """
    backup_dir: PathText | None = None
    """Directory, relative to the root of the data set at the target, that receives what is
    replaced or deleted.
    """
    only_new: bool = False
    """Leave the attributes of directories that are at the target already: a site without the
    right to replace has submitted the transfer.
    """
    kept_state: PathText | None = None
    """A path below the root of the data set at the target that is not deleted, whatever it
    holds. The user who copies keeps long-lived state there, such as the key for receipts.
    """


class SelectRule(View):
    """A rule on paths: the first that matches a path decides."""

    include: bool = False
    """True if the items that it matches are wanted."""
    glob: PathText
    """The pattern, bytes as in `.gitignore`."""


class FileTime(View):
    """A point in time as file systems store it."""

    seconds: int = 0
    """Whole seconds since 1970, which may be negative."""
    nanoseconds: int = 0
    """Nanoseconds within the second, 0 to 999,999,999."""


class Newer(View):
    """Least modification time of a file; exactly one of the two is set."""

    age_seconds: int | None = None
    """Seconds before the transfer was submitted."""
    time: FileTime | None = None
    """A moment."""


class Selection(View):
    """Selection among the items of a source. The default is everything.

    Rules decide on files, directories and links; sizes and times on files only. A directory that is
    not excluded is kept, even if nothing in it is wanted. An item that is not chosen is counted as
    `excluded`, never as skipped, and is not deleted at a target either.
    """

    rules: list[SelectRule] = []
    """Rules on paths, in the order in which they are tried."""
    size_min_bytes: int | None = None
    """Least size of a file in bytes."""
    size_max_bytes: int | None = None
    """Greatest size of a file in bytes."""
    newer_than: Newer | None = None
    """Only files modified after this."""
    one_file_system: bool = False
    """Do not descend into file systems that are mounted within the source."""


class Proof(View):
    """Proofs that a transfer is to give."""

    readback: bool = False
    """Read every file again from storage after its sync, past the page cache, and compare it
    with its digest. Costs one read of all data at the target, and its hashing.
    """
    also_digests: list[ChecksumKind] = []
    """Checksums of every file to compute besides the digest, for catalogues. Costs one read of
    all data at the target, mostly from its page cache, and their hashing.
    """
    receipt: bool = False
    """Make a signed receipt when the transfer ends."""


class Limits(View):
    """Limits of one transfer, for all peers together. None of them changes what is moved."""

    rate_bits_per_s: int | None = None
    """Most bits of file content per second on average, at least 500,000. Frames and TLS add
    some 0.1 %. The target enforces it; it can be changed while the transfer runs.
    """
    metadata_ops_per_s: int | None = None
    """Most metadata operations per second at each side, for any number of peers, at least 1.
    At the source they are look-ups of names by the scan; at the target, files, directories
    and links made, and names given.
    """


class Preserve(View):
    """Attributes of the entries to preserve beside their bytes and names.

    By default all of them, as far as the target allows. Between sites only its store's
    configuration lets owners, special modes, devices, ACLs, trusted and security attributes in.
    """

    mode: bool = True
    """Permission bits; without it new entries get the mode that the umask allows."""
    owner: bool = True
    """User and group."""
    times: bool = True
    """Times of last modification."""
    links: bool = True
    """Symbolic links; without it they are left out and counted."""
    hardlinks: bool = True
    """Several names of one file remain names of one file; without it each becomes a file of
    its own.
    """
    sparse: bool = True
    """Holes are neither sent nor allocated; without it they are written as zeros."""
    xattrs: bool = True
    """Extended attributes `user.*`, `trusted.*` and `security.*`."""
    acls: bool = True
    """POSIX ACLs."""
    devices: bool = True
    """FIFOs and device nodes; without it they are left out and counted."""
    strict: bool = False
    """Count an entry whose attributes cannot be set as failed; without it the loss is only
    counted.
    """
    owner_map: list[str] = []
    """Map of owners at the source to owners at the target. Other owners are mapped by name,
    and by number where the target does not know the name. For transfers between sites.
    """


class FollowedPlan(View):
    """A plan that a transfer follows."""

    digest: str
    """The digest in the plan's last line."""


class PlanFollow(View):
    """Use of a plan: follow it, and fail if the world has changed since it was made."""

    follow: FollowedPlan
    """The plan."""


class TransferOptions(View):
    """Options of a transfer. Every field has a default; none needs to be set."""

    digest: DigestKind = DigestKind.BLAKE3
    """Hash that verifies the data."""
    encryption: Encryption = Encryption.TLS
    """Encryption of payload on the wire."""
    cipher_suite: CipherSuite | None = None
    """Cipher suite of TLS; without it, the first of the target site's `cipher_suites` that the
    source site allows too. Goes with `tls` only.
    """
    durability: Durability = Durability.BATCH
    """Policy that defines when a file counts as durable."""
    digest_list: bool = False
    """Keep a digest list of the data set, offered by `transfer digests`."""
    lanes_max: int = 0
    """Most lanes at a time, of all target peers together; 0 lets the engine decide."""
    lanes: int = 0
    """Exact number of lanes, 1 to 1,024; 0 lets the engine decide, which is right for
    nearly all. Overrides `lanes_max`.
    """
    networks: list[str] = []
    """Names of the networks over which lanes may go, as either site calls them; empty allows all
    networks for data. Has no effect between stores of one host.
    """
    peers_max: int | None = None
    """Most peers of each site that carry data, at least 1; without it, all may. Other peers may
    help to list the source. Where a peer fails, another one takes its place, and both may carry
    data when it is back.
    """
    piece_bytes: int = 0
    """Bytes of the pieces into which large files are cut, a power of two from 1 MiB to 1 GiB;
    small files are packed up to half of it. 0 lets the engine decide, which is right for
    nearly all.
    """
    files_from: list[PathText] = []
    """Move only these paths, relative to the source; empty moves all."""
    update: UpdateOptions = UpdateOptions()
    """Treatment of what exists at the target."""
    select: Selection = Selection()
    """Selection of the source, or of these paths."""
    proof: Proof = Proof()
    """Proofs to give beyond the digests."""
    limits: Limits = Limits()
    """Limits to what it may use."""
    preserve: Preserve = Preserve()
    """Attributes to preserve."""
    plan: str | PlanFollow | None = None
    """Set if it only makes a plan, or follows one."""
    remove_source: bool = False
    """Remove at the source what was moved, once it is durable at the target."""
