// What is wrong with nodes, above every view: nodes that are down, alarms, partitions, damage.

import { maybe } from "./api.js";
import { link, note } from "./dom.js";
import { patch } from "./patch.js";
import { may } from "./session.js";
import { address } from "./text.js";

const place = document.getElementById("alarms");

/** Ask, and show it; a user who may not see nodes sees none of it. */
export async function lookForAlarms() {
  if (may.monitor()) showAlarms(await maybe("nodes", []));
}

export function showAlarms(nodes) {
  const found = nodes.flatMap((node) => wrongWith(node).map((text) => line(node, text)));
  patch(place, ...found);
}

export function forgetAlarms() {
  place.replaceChildren();
}

function line(node, text) {
  const element = note("");
  element.append(link(node.name, address("nodes", node.name)), `: ${text}`);
  return element;
}

function wrongWith(node) {
  if (!node.running) return ["the node is down, or does not answer"];
  const told = node.alarm_details || [];
  return [
    ...(told.length ? told : alarmNames(node)),
    ...(node.partitions || []).map((name) => `partition: cannot reach ${name}`),
    ...((node.recovery || {}).corrupt || []).map(damage),
  ];
}

function damage(found) {
  const hit = found.queues.map((each) => each.name).join(", ");
  const what = found.reason ? ` ${found.reason}` : "";
  return `damaged log ${found.file}${what}${hit ? `, not served: ${hit}` : ""}`;
}

export function alarmNames(node) {
  const raised = [
    [node.mem_alarm, "memory alarm: publishers wait"],
    [node.disk_free_alarm, "disk alarm: publishers wait"],
    [node.clock_alarm, "clock alarm"],
  ];
  return raised.filter(([isOn]) => isOn).map(([, text]) => text);
}
