/** Figures of series: their names, their units, and their order on the page. */

import { formatBytes, formatRate } from "../../../ui/format";

interface Figure {
  name: string;
  label: string;
}

/** In the order of the page. */
const FIGURES: Figure[] = [
  { name: "rate_bits_per_s", label: "Rate of this peer" },
  { name: "total_rate_bits_per_s", label: "Rate of all peers" },
  { name: "cards_in_bits_per_s", label: "Network cards, in" },
  { name: "cards_out_bits_per_s", label: "Network cards, out" },
  { name: "files_per_s", label: "Files per second" },
  { name: "lanes", label: "Lanes of this peer" },
  { name: "transfers", label: "Transfers" },
  { name: "total_lanes", label: "Lanes of all peers" },
  { name: "peers", label: "Peers at work" },
  { name: "cpu_busy_percent", label: "Processors" },
  { name: "cpu_busiest_percent", label: "Busiest processor" },
  { name: "cpu_steal_percent", label: "Taken by the hypervisor" },
  { name: "cpu_guest_percent", label: "Guests" },
  { name: "cpu_iowait_percent", label: "Waits for disks" },
  { name: "memory_used_bytes", label: "Memory in use" },
  { name: "memory_daemon_bytes", label: "Memory of the daemon" },
  { name: "disks_read_bytes_per_s", label: "Disks, read" },
  { name: "disks_written_bytes_per_s", label: "Disks, written" },
  { name: "package_watts", label: "Power of the processors" },
  { name: "dram_watts", label: "Power of the memory" },
];

/** Returns what a figure is called; a later release may have others. */
export function labelOf(name: string): string {
  return FIGURES.find((figure) => figure.name === name)?.label ?? name.replaceAll("_", " ");
}

/** Returns figures in the order of the page. */
export function ordered<T extends { name: string }>(columns: readonly T[]): T[] {
  const place = (name: string) => {
    const at = FIGURES.findIndex((figure) => figure.name === name);
    return at < 0 ? FIGURES.length : at;
  };
  return [...columns].sort((one, other) => place(one.name) - place(other.name));
}

/** Returns a value with the unit that its name ends in. */
export function formatFigure(name: string, value: number): string {
  if (name.endsWith("_bits_per_s")) {
    return formatRate(value);
  }
  if (name.endsWith("_bytes_per_s")) {
    return `${formatBytes(value)}/s`;
  }
  if (name.endsWith("_bytes")) {
    return formatBytes(value);
  }
  const unit = name.endsWith("_percent") ? " %" : name.endsWith("_watts") ? " W" : "";
  const digits = Number.isInteger(value) || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return `${value.toFixed(digits)}${unit}`;
}
