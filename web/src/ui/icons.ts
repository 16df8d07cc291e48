/** The icons of the page, each imported by itself so that the build stays quick. */

export { default as IconAlert } from "@tabler/icons-react/icons/IconAlertTriangle";
export { default as IconIn } from "@tabler/icons-react/icons/IconArrowDown";
export { default as IconBack } from "@tabler/icons-react/icons/IconArrowLeft";
export { default as IconRight } from "@tabler/icons-react/icons/IconArrowRight";
export { default as IconTransfers } from "@tabler/icons-react/icons/IconArrowsExchange";
export { default as IconOut } from "@tabler/icons-react/icons/IconArrowUp";
export { default as IconCancel } from "@tabler/icons-react/icons/IconBan";
export { default as IconCheck } from "@tabler/icons-react/icons/IconCheck";
export { default as IconDown } from "@tabler/icons-react/icons/IconChevronDown";
export { default as IconNext } from "@tabler/icons-react/icons/IconChevronRight";
export { default as IconDone } from "@tabler/icons-react/icons/IconCircleCheck";
export { default as IconNew } from "@tabler/icons-react/icons/IconCirclePlus";
export { default as IconFailed } from "@tabler/icons-react/icons/IconCircleX";
export { default as IconClock } from "@tabler/icons-react/icons/IconClock";
export { default as IconCopy } from "@tabler/icons-react/icons/IconCopy";
export { default as IconUp } from "@tabler/icons-react/icons/IconCornerLeftUp";
export { default as IconStores } from "@tabler/icons-react/icons/IconDatabase";
export { default as IconDevice } from "@tabler/icons-react/icons/IconDeviceDesktop";
export { default as IconMore } from "@tabler/icons-react/icons/IconDots";
export { default as IconDownload } from "@tabler/icons-react/icons/IconDownload";
export { default as IconFile } from "@tabler/icons-react/icons/IconFile";
export { default as IconAudit } from "@tabler/icons-react/icons/IconFileCertificate";
export { default as IconBrowse, default as IconFolder } from "@tabler/icons-react/icons/IconFolder";
export { default as IconFolderAdd } from "@tabler/icons-react/icons/IconFolderPlus";
export { default as IconEvents } from "@tabler/icons-react/icons/IconHistory";
export {
  default as IconAbout,
  default as IconNote,
} from "@tabler/icons-react/icons/IconInfoCircle";
export { default as IconKey } from "@tabler/icons-react/icons/IconKey";
export { default as IconOverview } from "@tabler/icons-react/icons/IconLayoutDashboard";
export { default as IconLink } from "@tabler/icons-react/icons/IconLink";
export { default as IconQueue } from "@tabler/icons-react/icons/IconListNumbers";
export { default as IconLogOut } from "@tabler/icons-react/icons/IconLogout";
export { default as IconMenu } from "@tabler/icons-react/icons/IconMenu2";
export { default as IconDark } from "@tabler/icons-react/icons/IconMoon";
export { default as IconPause } from "@tabler/icons-react/icons/IconPlayerPause";
export { default as IconResume } from "@tabler/icons-react/icons/IconPlayerPlay";
export { default as IconAdd } from "@tabler/icons-react/icons/IconPlus";
export { default as IconReload } from "@tabler/icons-react/icons/IconReload";
export { default as IconRetry } from "@tabler/icons-react/icons/IconRotateClockwise";
export { default as IconSearch } from "@tabler/icons-react/icons/IconSearch";
export { default as IconPeers } from "@tabler/icons-react/icons/IconServer2";
export { default as IconSettings } from "@tabler/icons-react/icons/IconSettings";
export { default as IconOk } from "@tabler/icons-react/icons/IconShieldCheck";
export { default as IconLight } from "@tabler/icons-react/icons/IconSun";
export { default as IconTerminal } from "@tabler/icons-react/icons/IconTerminal2";
export { default as IconRunning } from "@tabler/icons-react/icons/IconTransfer";
export { default as IconDelete } from "@tabler/icons-react/icons/IconTrash";
export { default as IconUser } from "@tabler/icons-react/icons/IconUser";
export { default as IconUsers } from "@tabler/icons-react/icons/IconUsers";
export { default as IconWebhooks } from "@tabler/icons-react/icons/IconWebhook";
export { default as IconSites } from "@tabler/icons-react/icons/IconWorld";
export { default as IconClose } from "@tabler/icons-react/icons/IconX";
