// What every view of the page must keep, looked at from inside of it: a list of what is wrong.

(() => {
  const wrong = [];
  const shown = (element) => element.checkVisibility({ visibilityProperty: true });
  const all = (selector) => [...document.querySelectorAll(selector)].filter(shown);
  const at = (element) => `<${element.localName}> ${element.textContent.trim().slice(0, 40)}`;

  function nameOf(element) {
    const label = element.getAttribute("aria-label");
    if (label) return label;
    if (element.labels && element.labels.length) return element.labels[0].textContent.trim();
    const image = element.querySelector("img[alt]");
    return (element.textContent || (image && image.alt) || "").trim();
  }

  for (const element of all("a[href], button, input, select, textarea, summary, [tabindex='0']")) {
    if (!nameOf(element)) wrong.push(`no name: ${element.outerHTML.slice(0, 120)}`);
  }
  for (const element of all("img:not([alt])")) wrong.push(`no alt: ${element.outerHTML}`);
  for (const element of all("svg[role=img]:not([aria-label])")) wrong.push(`no label: ${at(element)}`);
  for (const element of all("[tabindex]")) {
    if (Number(element.getAttribute("tabindex")) > 0) wrong.push(`out of turn: ${at(element)}`);
  }
  if (all("h1").length !== 1) wrong.push(`${all("h1").length} headings of the first order`);
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  for (const id of new Set(ids)) {
    if (ids.filter((other) => other === id).length > 1) wrong.push(`twice: #${id}`);
  }
  for (const element of all("th")) {
    if (element.getAttribute("scope") !== "col") wrong.push(`no scope: ${at(element)}`);
  }

  // Contrast: 4.5 to 1 for text, 3 to 1 for large text (WCAG 2.1, 1.4.3).
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  function rgba(colour) {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  }
  function light([r, g, b]) {
    const part = (value) => {
      const share = value / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    };
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  }
  function behind(element) {
    for (let each = element; each; each = each.parentElement) {
      const colour = rgba(getComputedStyle(each).backgroundColor);
      if (colour[3] > 0.99) return colour;
    }
    return rgba(getComputedStyle(document.documentElement).backgroundColor);
  }
  function holdsText(element) {
    return [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  }
  for (const element of all("body *")) {
    if (!holdsText(element) || element.closest("noscript, svg, :disabled")) continue;
    const style = getComputedStyle(element);
    const [one, other] = [light(rgba(style.color)), light(behind(element))];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (isLarge ? 3 : 4.5)) wrong.push(`contrast ${ratio.toFixed(2)}: ${at(element)}`);
  }
  return wrong;
})()
