// Figures, sizes and times as text.

export function count(value) {
  const isThere = value !== undefined && value !== null && value !== "";
  return isThere ? Number(value).toLocaleString("en") : "";
}

/** A count of a queue; that of one whose node does not answer is not known. */
export function countOf(row, name) {
  return row.counts_known === false && row[name] === null ? "unknown" : count(row[name]);
}

export function rate(value) {
  if (value === undefined || value === null || Number.isNaN(value)) return "";
  return `${value >= 100 ? Math.round(value).toLocaleString("en") : value.toFixed(1)}/s`;
}

export function bytes(value) {
  if (value === undefined || value === null || Number.isNaN(value) || value < 0) return "";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let place = 0;
  while (value >= 1024 && place < units.length - 1) {
    value /= 1024;
    place += 1;
  }
  return `${place === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[place]}`;
}

export function duration(ms) {
  if (ms === undefined || ms === null || Number.isNaN(ms)) return "";
  const seconds = Math.floor(ms / 1000);
  const days = Math.floor(seconds / 86400);
  const hours = Math.floor(seconds / 3600) % 24;
  const minutes = Math.floor(seconds / 60) % 60;
  if (days) return `${days} d ${hours} h`;
  if (hours) return `${hours} h ${minutes} min`;
  return minutes ? `${minutes} min ${seconds % 60} s` : `${seconds} s`;
}

/** The time of day, on the reader's clock. */
export function clock(ms, hasSeconds = true) {
  const parts = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  return new Date(ms).toLocaleTimeString([], hasSeconds ? { ...parts, second: "2-digit" } : parts);
}

/** Milliseconds since 1970, as the reader's clock shows them. */
export function when(ms) {
  return ms ? new Date(ms).toLocaleString() : "";
}

export function yes(value) {
  return value === undefined || value === null ? "" : value ? "yes" : "no";
}

/** Tags come as a list, or with commas. */
export function words(value) {
  return Array.isArray(value) ? value : String(value || "").split(",").filter(Boolean);
}

/** The rate that the API tells with a count: `publish` has `publish_details`. */
export function told(counts, name) {
  const details = (counts || {})[`${name}_details`];
  return rate(details ? details.rate : undefined);
}

/** An address of this page: `#/queues/%2F/orders`. */
export function address(...segments) {
  return `#/${segments.map(encodeURIComponent).join("/")}`;
}
