"""A site of several peers."""

from .base import View


class DataAddress(View):
    """An address at which a peer takes lanes."""

    peer: str
    """The peer."""
    address: str = ""
    """Address at which it listens."""
    network: str | None = None
    """The network of that address, if it has a name."""
    rate_bits_per_s: int | None = None
    """Rate of the interface, if its operator has configured it."""


class StoreRights(View):
    """Rights of paired sites to a store: their names, or `*` for all of them."""

    read: list[str] = []
    """Sites that may read from it."""
    write: list[str] = []
    """Sites that may have data written to it."""
    delete: list[str] = []
    """Sites of `write` that may also have replaced and deleted what is there."""
    remove: list[str] = []
    """Sites that may remove there what was moved to them."""


class StoreCard(View):
    """A store as a peer reaches it."""

    store: str
    """Its name."""
    identity: str = ""
    """Its identity, in hex; empty if it has none yet, or cannot be read."""
    mounts: str = ""
    """File systems mounted within it, in words; empty if there are none."""
    rights: StoreRights = StoreRights()
    """Rights of paired sites to the store, as that peer is configured."""
    trouble: str = ""
    """The reason why it cannot be opened, in words; empty if it can."""
    mapped: bool = False
    """True if it is used as the accounts of users, by the configuration of that peer."""


class PeerCard(View):
    """Description that a peer publishes to the others of its site, kept under its lease."""

    peer: str
    """Its name within the site."""
    instance: int = 0
    """Random number of the daemon's process, so that a restarted peer counts as a new one."""
    addresses: list[str] = []
    """Addresses at which it takes requests."""
    data: list[DataAddress] = []
    """Addresses at which it takes lanes."""
    version: str = ""
    """Release of the program."""
    protocol: int = 0
    """Version of the protocol between peers that it speaks; 0 for none that shares transfers."""
    formats: str = ""
    """Formats of the site's records that it knows."""
    boot: str = ""
    """Boot id of the host, in hex."""
    stores: list[StoreCard] = []
    """Stores that it reaches."""
    running: int = 0
    """Transfers that run under it as the controller."""
    since: int = 0
    """Start of its daemon, in seconds since 1970."""
    key: str = ""
    """SHA-256 of the key of its certificate, in hex: by this it is revoked."""
    keys_at: list[str] = []
    """Addresses at which it takes the next keys of the site. A witness has them too, and takes
    no other requests.
    """


class LeaderCard(View):
    """Description of the leader, kept under its lease."""

    peer: str
    """The peer."""
    instance: int = 0
    """Random number of its process, as in its `PeerCard`."""
    addresses: list[str] = []
    """Addresses at which it listens for peers and data."""
    since: int = 0
    """Time of its election, in seconds since 1970."""


class EtcdView(View):
    """State of an etcd endpoint."""

    endpoint: str
    """Its address."""
    version: str = ""
    """Version of etcd; empty if it does not answer."""
    bytes: int = 0
    """Bytes of its database."""
    bytes_in_use: int = 0
    """Bytes of it that are in use."""
    quota_bytes: int = 0
    """Bytes beyond which it refuses all writes; 0 if it does not say."""
    leads: bool = False
    """True if it leads the other members of etcd."""
    learner: bool = False
    """True if it only follows so far, without a vote."""
    member: str = ""
    """Name of the member; empty if it does not say."""
    members: int = 0
    """Number of members; 0 if it does not say."""
    answer_us: int = 0
    """Time until it answered, in microseconds."""
    is_uncompacted: bool = False
    """True if its whole history is kept, though it is long: nothing compacts it."""
    trouble: str = ""
    """Reason why it is not healthy; empty if it is."""


class ClusterView(View):
    """A site of several peers, as `penstock site status` shows it."""

    leader: LeaderCard | None = None
    """The leader, if there is one."""
    is_leader: bool = False
    """True if the peer that answers is the leader."""
    epoch: str = ""
    """Epoch of the leader: the incarnation of the site's records in etcd, then the revision at
    which the leader was elected.
    """
    format: int = 0
    """Format of the site's records; 0 while that is not known."""
    peers: list[PeerCard] = []
    """Peers that are there now."""
    etcd: list[EtcdView] = []
    """State of each etcd endpoint."""
    etcd_hosts: int = 0
    """Hosts on which the site is to run etcd; 0 if its operators run it."""
    lease_seconds: int = 0
    """Seconds after which a silent controller is replaced."""
    trouble: str = ""
    """Reason why the membership is unknown now; empty if it is known."""
    etcd_transactions: int = 0
    """Transactions that this peer has written to etcd."""
    etcd_bytes: int = 0
    """Bytes of these."""


class RecoveredView(View):
    """Records with which a recovered site continues."""

    incarnation: str = ""
    """Incarnation of its records, in hex."""
    transfers: int = 0
    """Transfers among them."""
    from_journal: bool = False
    """True if they are from the journal's copy, which knew more than etcd."""
