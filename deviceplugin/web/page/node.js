// The node as a drawing: NVLink domains as boxes, GPUs as tiles in them by NUMA node, links between the tiles.

const WORDS = { "healthy": "healthy", "rank-last": "ranked last", "unhealthy": "unhealthy" };
const CLASSES = { "healthy": "good", "rank-last": "warn", "unhealthy": "bad" };

function meter(label, ratio, text, kind) {
  return h("span", { class: "measure" },
    h("span", { class: "measure-name" }, label), h("span", { class: "measure-value" }, text),
    h("span", { class: `meter ${kind || ""}`, role: "img", "aria-label": `${label} ${text}` },
      h("i", { style: { width: `${Math.round((ratio || 0) * 1000) / 10}%` } })));
}

function standing(gpu) {
  if (gpu.health === "unhealthy") return ["bad", "unhealthy"];
  if (gpu.left_out || !Object.keys(gpu.resources).length) return ["off", "not offered"];
  if (gpu.health === "rank-last") return ["warn", "ranked last"];
  return ["good", "healthy"];
}

function podChips(gpu, limit) {
  const holders = gpu.holders;
  if (!holders.length) return null;
  const chips = holders.slice(0, limit).map((one) =>
    h("span", { class: "pod", title: `${one.namespace}/${one.pod} · ${one.container} · ${one.resource}` },
      h("small", {}, one.namespace), h("b", {}, one.pod), one.shares > 1 ? h("em", {}, `×${one.shares}`) : null));
  if (holders.length > limit) chips.push(h("span", { class: "more" }, `and ${holders.length - limit} more`));
  return chips;
}

function sharesLine(gpu) {
  const offered = Object.values(gpu.resources).reduce((sum, one) => sum + one, 0);
  if (offered <= Math.max(1, gpu.instances.length)) return null;
  const held = gpu.holders.reduce((sum, one) => sum + one.shares, 0);
  return h("span", { class: "shares", title: `${held} of ${offered} shares held` },
    Array.from({ length: Math.min(offered, 40) }, (_, n) => h("i", { class: n < Math.min(40, Math.round(held * Math.min(1, 40 / offered))) ? "on" : "" })),
    h("small", {}, `${held} of ${offered} shares held`));
}

function slices(gpu) {
  if (!gpu.instances.length) return gpu.mig ? h("span", { class: "quiet" }, "MIG on, no instance") : null;
  return h("span", { class: "slices" }, gpu.instances.map((one) => {
    const pods = one.holders.map((holder) => `${holder.namespace}/${holder.pod}`).join(", ");
    const kind = one.health !== "healthy" ? CLASSES[one.health] : one.left_out ? "off" : pods ? "held" : "free";
    return h("span", { class: `slice ${kind}`, style: { "flex-grow": String(one.slices || 1) },
      title: `${one.profile || "unknown profile"} · ${pods || (one.left_out ? one.left_out.detail : "free")}` },
      (one.profile || "?").split(".")[0]);
  }));
}

function memory(gpu, compact) {
  if (!known(gpu.memory_total)) return null;
  const total = gib(gpu.memory_total);
  const text = known(gpu.memory_used) ? (compact ? `${gib(gpu.memory_used)} GiB` : `${gib(gpu.memory_used)} / ${total} GiB`) : `${total} GiB`;
  return meter("Mem", known(gpu.memory_used) ? gpu.memory_used / gpu.memory_total : 0, text, "memory");
}

function tileEnd(gpu, kind, podsKnown) {
  const pods = podChips(gpu, 2);
  if (gpu.causes.length)
    return [h("span", { class: "why" }, gpu.causes[0].reason, h("small", {}, ` since ${span(now() - gpu.causes[0].since)}`)), pods];
  if (gpu.left_out && !pods) return h("span", { class: "why" }, gpu.left_out.reason.replaceAll("-", " "));
  return pods || h("span", { class: "quiet" }, podsKnown ? "free" : "holder unknown");
}

function tile(gpu, status, compact) {
  const [kind, word] = standing(gpu);
  const figures = [known(gpu.temperature) ? `${gpu.temperature} °C` : null, known(gpu.power) ? watts(gpu.power) : null];
  return h("button", { class: `tile ${kind}${compact ? " compact" : ""}${gpu.holders.length ? " held" : ""}`, type: "button",
    "data-key": gpu.uuid, "data-gpu": gpu.index, onclick: () => openDetails(gpu.uuid) },
    h("span", { class: "tile-head" }, h("b", {}, compact ? String(gpu.index) : `GPU ${gpu.index}`),
      gpu.mig ? h("span", { class: "badge" }, "MIG") : null,
      h("span", { class: `state ${kind}`, title: word }, h("i", {}), compact ? "" : word)),
    known(gpu.utilization) ? meter("SM", gpu.utilization, percent(gpu.utilization), "") : null,
    slices(gpu), memory(gpu, compact), sharesLine(gpu),
    h("span", { class: "figures" }, figures.filter(known).join(" · ")),
    tileEnd(gpu, kind, status.kubelet.pods_seen));
}

function byNuma(gpus) {
  const groups = [];
  for (const gpu of gpus) {
    const last = groups[groups.length - 1];
    if (last && last.numa === gpu.numa) last.gpus.push(gpu);
    else groups.push({ numa: gpu.numa, gpus: [gpu] });
  }
  return groups;
}

function tiles(gpus, columns, status, compact) {
  return h("div", { class: "row", style: { "--columns": String(columns) } }, byNuma(gpus).map((group) =>
    h("div", { class: "numa", style: { "--span": String(Math.min(columns, group.gpus.length)) } },
      h("span", { class: "numa-name" }, known(group.numa) ? `NUMA ${group.numa}` : "NUMA unknown"),
      group.gpus.map((gpu) => tile(gpu, status, compact)))));
}

function linkText(pairs) {
  const widths = [...new Set(pairs.map((pair) => pair.width))].sort((a, b) => a - b);
  return widths.length === 1 ? count(widths[0], "link") : `${widths[0]} to ${count(widths[widths.length - 1], "link")}`;
}

function domainBox(domain, status, byIndex) {
  const order = domain.gpus.map((index) => byIndex.get(index));
  const first = new Map(order.map((gpu, place) => [gpu.numa, place]).reverse());
  order.sort((a, b) => first.get(a.numa) - first.get(b.numa) || a.index - b.index);
  const half = order.length <= 4 ? order.length : Math.ceil(order.length / 2);
  const members = new Set(domain.gpus);
  const pairs = status.links.filter((pair) => members.has(pair.a));
  const switched = domain.wiring === "switch";
  const compact = half > 4;
  return h("section", { class: `domain ${half <= 2 ? "narrow" : ""}`, "data-key": `domain-${domain.domain}` },
    h("header", {}, h("h3", {}, `NVLink domain ${domain.domain}`),
      h("span", {}, `${count(order.length, "GPU")} · ${switched ? "NVSwitch" : "direct"}, ${linkText(pairs)} ${switched ? "to each other GPU" : "between linked GPUs"}`)),
    tiles(order.slice(0, half), half, status, compact),
    h("div", { class: "band", "data-own": true, "data-key": `band-${domain.domain}`, "data-wiring": domain.wiring,
      "data-halves": order.length > half ? 2 : 1, "data-many": order.length > 2, "data-pairs": JSON.stringify(pairs), "data-gpus": JSON.stringify(order.map((gpu) => gpu.index)),
      "data-half": half }),
    order.length > half ? tiles(order.slice(half), half, status, compact) : null);
}

function looseBox(numa, gpus, status) {
  const columns = gpus.length <= 4 ? gpus.length : 4;
  return h("section", { class: `domain loose ${columns <= 2 ? "narrow" : ""}`, "data-key": `loose-${numa}` },
    h("header", {}, h("h3", {}, gpus.every((gpu) => gpu.mig) ? "No NVLink in MIG mode" : gpus.length === 1 ? "No NVLink" : "PCIe only"), h("span", {}, count(gpus.length, "GPU"))),
    tiles(gpus, columns, status, false));
}

function nodeDrawing(status) {
  const byIndex = new Map(status.gpus.map((gpu) => [gpu.index, gpu]));
  const linked = status.domains.filter((domain) => domain.gpus.length > 1);
  const inDomain = new Set(linked.flatMap((domain) => domain.gpus));
  const loose = new Map();
  for (const gpu of status.gpus)
    if (!inDomain.has(gpu.index)) loose.set(gpu.numa, [...(loose.get(gpu.numa) || []), gpu]);
  return h("div", { class: "node" }, linked.map((domain) => domainBox(domain, status, byIndex)),
    [...loose].map(([numa, gpus]) => looseBox(numa, gpus, status)));
}

// Links are drawn when the tiles have their places: arcs within a row, curves between rows, a bar for a switch.

function anchors(band) {
  const frame = band.getBoundingClientRect();
  const half = Number(band.dataset.half);
  return new Map(JSON.parse(band.dataset.gpus).map((index, place) => {
    const box = band.parentElement.querySelector(`[data-gpu="${index}"]`).getBoundingClientRect();
    const top = place < half;
    return [index, { x: box.left + box.width / 2 - frame.left, y: (top ? box.bottom : box.top) - frame.top, top }];
  }));
}

function drawSwitch(band, places, width, height) {
  const middle = band.dataset.halves === "2" ? height / 2 : height - 15;
  const stubs = [...places].map(([, place]) =>
    h("path", { class: "link", "stroke-width": 3, d: `M${place.x} ${place.y}V${middle}` }));
  return [...stubs, h("rect", { class: "switch", x: 0.5, y: middle - 13, width: width - 1, height: 26, rx: 8 }),
    h("text", { class: "switch-name", x: width / 2, y: middle + 4 }, "NVSwitch")];
}

function fanned(place, other) {
  return { ...place, x: place.x + 14 * Math.tanh((other.x - place.x) / 500) };
}

function depth(a, b, height, width) {
  return (18 + (height * 1.25 - 18) * (Math.abs(a.x - b.x) / width) ** 0.8) * (a.top ? 1 : -1);
}

function curve(from, to, height, width) {
  const [a, b] = [fanned(from, to), fanned(to, from)];
  if (a.top !== b.top) {
    const bend = (b.y - a.y) / 2;
    return `M${a.x} ${a.y}C${a.x} ${a.y + bend} ${b.x} ${b.y - bend} ${b.x} ${b.y}`;
  }
  const bend = depth(a, b, height, width);
  return `M${a.x} ${a.y}C${a.x} ${a.y + bend} ${b.x} ${b.y + bend} ${b.x} ${b.y}`;
}

function drawLinks(band, places, width, height) {
  const pairs = JSON.parse(band.dataset.pairs);
  const widest = Math.max(...pairs.map((pair) => pair.width));
  const paths = pairs.map((pair) => h("path", { class: "link", "stroke-width": 1.5 + 3 * (pair.width / widest),
    d: curve(places.get(pair.a), places.get(pair.b), height, width) }, h("title", {}, `GPU ${pair.a} – GPU ${pair.b}: NV${pair.width}`)));
  if (pairs.length !== 1) return paths;
  const [a, b] = [places.get(pairs[0].a), places.get(pairs[0].b)];
  return [...paths, h("text", { class: "link-name", x: (a.x + b.x) / 2, y: a.y + 0.75 * depth(a, b, height, width) + 4 }, `NV${pairs[0].width}`)];
}

function drawBands() {
  for (const band of document.querySelectorAll(".band")) {
    const { clientWidth: width, clientHeight: height } = band;
    if (!width) continue;
    const places = anchors(band);
    const shapes = band.dataset.wiring === "switch" ? drawSwitch(band, places, width, height) : drawLinks(band, places, width, height);
    patch(band, [h("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" }, shapes)]);
  }
}
