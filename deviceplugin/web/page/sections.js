// What stands around the drawing.

function headline(status) {
  if (!status.plugin.live.ok) return ["bad", "not alive"];
  if (!status.plugin.ready.ok) return ["bad", "not ready"];
  if (status.gpus.some((gpu) => gpu.health === "unhealthy")) return ["warn", "ready, GPUs unhealthy"];
  if (!status.gpus.length) return ["off", "no GPU"];
  return ["good", "ready"];
}

function models(status) {
  const counts = new Map();
  for (const gpu of status.gpus) counts.set(gpu.name, (counts.get(gpu.name) || 0) + 1);
  return [...counts].map(([name, number]) => `${number} × ${name}`).join(", ") || "no GPUs";
}

function top(status) {
  const [kind, word] = headline(status);
  const node = status.node;
  const facts = [models(status), node.driver && `driver ${node.driver}`, node.cuda && `CUDA ${node.cuda}`, node.machine];
  return h("header", { class: "top" },
    h("div", {}, h("h1", {}, status.plugin.hostname || "GPU node"), h("p", {}, facts.filter(Boolean).join(" · "))),
    h("div", { class: "top-state" }, h("span", { class: `pill ${kind}` }, h("i", {}), word),
      h("p", { id: "age", class: "quiet" })));
}

const STATES = {
  "starting": "The first scan has not ended yet.",
  "no-hardware": "This node has no NVIDIA GPU. The plugin idles and looks again from time to time.",
  "no-driver": "There is NVIDIA hardware but no driver library. The plugin keeps looking.",
  "failing": "The driver answers with an error. The plugin keeps looking.",
  "mismatch": "The driver was upgraded underneath. The plugin starts itself anew.",
  "released": "The driver is released so that a GPU can be reset; health is not watched meanwhile.",
  "mig-single-unequal-profiles": "MIG strategy single needs equal instances on all GPUs; make them equal or choose mixed.",
  "mig-single-partly-enabled": "MIG strategy single needs MIG mode on all GPUs or on none; change it or choose mixed.",
  "mig-without-instances": "MIG mode is on and there is no instance; create some, or switch MIG mode off.",
  "nothing-to-offer": "Nothing is left to offer; the GPUs below say why.",
};

function notices(status) {
  const { node, plugin, config } = status;
  const idle = node.state === "no-hardware";
  const lines = [];
  if (STATES[node.state]) lines.push([idle ? "off" : "warn", STATES[node.state], node.detail]);
  if (!idle && node.state === "ready" && STATES[node.offer]) lines.push(["warn", STATES[node.offer], ""]);
  for (const reason of plugin.live.reasons) lines.push(["bad", "Not alive", reason]);
  for (const reason of plugin.ready.reasons) lines.push(["bad", "Not ready", reason]);
  if (config.refused) lines.push(["warn", "The newest configuration was refused, the one before stays in force", config.refused]);
  if (!node.health_checked) lines.push(["warn", "No source of health can be read; what was known before stays in force", ""]);
  if (status.kubelet.pods_seen === false) lines.push(["off", "The kubelet's pod resources API does not answer: who holds a GPU is unknown", ""]);
  for (const warning of status.warnings) lines.push(["off", warning, ""]);
  return lines.length ? h("ul", { class: "notices" }, lines.map(([kind, text, more]) =>
    h("li", { class: kind }, h("i", {}), h("span", {}, text, more ? h("small", {}, more) : null)))) : null;
}

function mean(values) {
  return values.length ? values.reduce((sum, one) => sum + one, 0) / values.length : null;
}

function figure(name, value, more, kind) {
  return h("div", { class: "figure", "data-key": name }, h("span", {}, name), h("b", { class: kind || "" }, value), h("small", {}, more || ""));
}

function figures(status) {
  const sum = (key) => status.resources.reduce((total, one) => total + (one[key] || 0), 0);
  const held = status.gpus.filter((gpu) => gpu.holders.length && known(gpu.utilization));
  const power = status.gpus.filter((gpu) => known(gpu.power));
  const limits = power.filter((gpu) => known(gpu.power_limit));
  const podsKnown = status.kubelet.pods_seen;
  const blocks = status.domains.map((domain) => status.gpus.filter((gpu) => domain.gpus.includes(gpu.index) && !gpu.holders.length && standing(gpu)[0] === "good").length);
  const unhealthy = sum("unhealthy");
  const total = (list, key) => list.reduce((all, gpu) => all + gpu[key], 0);
  return h("div", { class: "figures-row" },
    figure("Offered", String(sum("offered")), status.resources.length === 1 ? status.resources[0].name : count(status.resources.length, "resource")),
    figure("In use", podsKnown ? String(sum("allocated")) : "–", podsKnown && sum("offered") ? percent(sum("allocated") / sum("offered")) : ""),
    figure("Free", podsKnown ? String(sum("free")) : "–", podsKnown && Math.max(0, ...blocks) ? `largest free block ${count(Math.max(...blocks), "GPU")}` : ""),
    figure("Unhealthy", String(unhealthy), unhealthy ? "see below" : "", unhealthy ? "bad" : ""),
    figure("Mean SM use", percent(mean(held.map((gpu) => gpu.utilization))), status.gpus.every((gpu) => gpu.mig) ? "not told in MIG mode" : "of GPUs in use"),
    power.length ? figure("Power", watts(total(power, "power")), limits.length ? `of ${watts(total(limits, "power_limit"))}` : "") : null);
}

function stack(one) {
  const free = known(one.free) ? one.free : one.healthy;
  const parts = [["held", one.offered - free - one.unhealthy], ["free", free], ["bad", one.unhealthy]];
  return h("span", { class: "stack" }, parts.filter(([, n]) => n).map(([kind, n]) =>
    h("i", { class: kind, style: { "flex-grow": String(n) }, title: `${n} ${kind === "bad" ? "unhealthy" : kind}` })));
}

function connection(one, more) {
  return h("span", { class: `state ${one.phase === "streaming" ? "good" : "warn"} ${more || ""}` }, h("i", {}), one.phase);
}

function resources(status) {
  const dash = (value) => (known(value) ? String(value) : "–");
  const rows = status.resources.map((one) => h("tr", { "data-key": one.name },
    h("th", { scope: "row" }, one.name, stack(one), one.sharing === "none" ? null : h("small", {}, `shared by ${one.sharing}`),
      connection(one, "narrow-only"), one.trouble ? h("small", {}, one.trouble) : null),
    h("td", {}, String(one.offered)), h("td", {}, dash(one.allocated)), h("td", {}, dash(one.free)),
    h("td", { class: one.unhealthy ? "bad" : "" }, String(one.unhealthy)), h("td", { class: "word" }, connection(one))));
  const heads = ["Resource", "Offered", "In use", "Free", "Unhealthy", "Kubelet"].map((name) => h("th", { scope: "col" }, name));
  return panel("Resources", rows.length ? h("table", {}, h("thead", {}, h("tr", {}, heads)), h("tbody", {}, rows))
    : h("p", { class: "quiet" }, "Nothing is offered."));
}

function panel(name, ...content) {
  return h("section", { class: "panel", "data-key": name }, h("h2", {}, name), content);
}

function transitions(status) {
  const lines = status.transitions.slice(0, 12).map((one) => h("li", { class: CLASSES[one.to], "data-key": `${one.at}-${one.uuid}-${one.reason}` },
    h("i", {}), h("div", {},
      h("p", {}, h("b", {}, `GPU ${one.gpu}`), ` ${WORDS[one.to]} · ${one.reason}`, h("time", { title: clock(one.at) }, `${span(now() - one.at)} ago`)),
      h("p", { class: "quiet" }, told(one.detail)), one.todo ? h("p", { class: "todo" }, told(one.todo)) : null)));
  return panel("Health", lines.length ? h("ol", { class: "changes" }, lines) : h("p", { class: "quiet" }, "No change of health since the plugin started."));
}

function leftOut(status) {
  const devices = status.gpus.flatMap((gpu) => [gpu, ...gpu.instances]);
  const lines = devices.filter((one) => one.left_out).map((one) => h("li", { "data-key": one.uuid }, one.left_out.detail));
  return lines.length ? panel("Not offered", h("ul", { class: "plain" }, lines)) : null;
}

function facts(status) {
  const { config, plugin, kubelet } = status;
  const reloads = Object.entries(config.reloads).map(([result, n]) => `${n} ${result}`).join(", ") || "none";
  const list = [
    ["Configuration", config.source], ["Hash", config.hash], ["Taken in", `${span(now() - config.loaded)} ago`], ["Reloads", reloads],
    ["Kubelet socket", kubelet.socket || "none: serving without registering"],
    ["Pod resources", known(kubelet.pods_seen) ? (kubelet.pods_seen ? "answering" : "not answering") : "not asked"],
    ["Version", plugin.version], ["Running for", span(now() - plugin.started)],
  ];
  return panel("Plugin", h("dl", {}, list.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])));
}

function panels(status) {
  const quiet = !status.transitions.length;
  return h("div", { class: "panels" }, h("div", {}, resources(status), leftOut(status), quiet ? null : facts(status)),
    h("div", {}, transitions(status), quiet ? facts(status) : null));
}

function pairsOf(rows) {
  return h("dl", {}, rows.filter(([, value]) => known(value) && value !== "").map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

function causeList(causes) {
  return causes.map((cause) => h("div", { class: "cause", "data-key": cause.reason },
    h("b", {}, `${cause.reason} since ${clock(cause.since)}`), h("p", {}, told(cause.detail)), h("p", { class: "todo" }, told(cause.todo))));
}

function details(gpu) {
  const links = gpu.nvlinks && `${gpu.nvlinks.active} of ${gpu.nvlinks.total} active`;
  const offered = Object.entries(gpu.resources).map(([name, n]) => (n === 1 ? name : `${n} × ${name}`)).join(", ");
  const holder = (one) => h("li", {}, `${one.namespace}/${one.pod}`, h("small", {}, ` ${one.container} · ${one.resource}${one.shares > 1 ? ` ×${one.shares}` : ""}`));
  return [
    h("header", {}, h("h2", {}, `GPU ${gpu.index}`), h("button", { type: "button", "aria-label": "close", onclick: () => document.getElementById("details").close() }, "✕")),
    causeList(gpu.causes),
    gpu.left_out ? h("p", { class: "todo" }, told(gpu.left_out.detail)) : null,
    pairsOf([["Model", gpu.name], ["UUID", gpu.uuid], ["PCI", gpu.pci], ["NUMA node", gpu.numa], ["NVLink domain", gpu.domain], ["NVLinks", links],
      ["Offered as", offered || "not offered"], ["SM use", percent(gpu.utilization)], ["Memory use", percent(gpu.memory_utilization)],
      ["Power", known(gpu.power) ? `${watts(gpu.power)}${known(gpu.power_limit) ? ` of ${watts(gpu.power_limit)}` : ""}` : null],
      ["Temperature", known(gpu.temperature) ? `${gpu.temperature} °C` : null]]),
    h("h3", {}, gpu.holders.length ? "Held by" : "Held by nobody"), h("ul", { class: "plain" }, gpu.holders.map(holder)),
    gpu.instances.length ? [h("h3", {}, "MIG instances"), h("ul", { class: "plain" }, gpu.instances.map((one) => h("li", {},
      h("b", {}, `${gpu.index}:${one.slot} ${one.profile || ""} `), `${WORDS[one.health]}, ${one.holders.map((who) => `${who.namespace}/${who.pod}`).join(", ") || "free"}`,
      causeList(one.causes), one.left_out ? h("small", {}, ` ${one.left_out.detail}`) : null)))] : null,
  ];
}
