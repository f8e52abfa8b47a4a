// Titles the page with the texts whose contrast to what they stand on is below 4.5 (WCAG 2.2, 1.4.3), and with the scheme that is shown.
addEventListener("load", () => {
  const luminance = parts => {
    const [r, g, b] = parts.map(part => part / 255).map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const painted = colours => {  // one over the other
    canvas.clearRect(0, 0, 1, 1);
    for (const colour of colours) { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); }
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const probe = document.createElement("i");
  probe.style.color = "Canvas";
  document.body.append(probe);
  const bottom = getComputedStyle(probe).color, low = [];
  for (const details of document.querySelectorAll("details")) details.open = true;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let seen = 0;
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || element.closest("script, style, svg")) continue;
    const below = [bottom];
    for (let each = element; each; each = each.parentElement) below.splice(1, 0, getComputedStyle(each).backgroundColor);
    const back = luminance(painted(below)), ink = luminance(painted([...below, getComputedStyle(element).color]));
    const ratio = (Math.max(back, ink) + 0.05) / (Math.min(back, ink) + 0.05);
    seen += 1;
    if (ratio < 4.5) low.push(`${element.tagName} ${ratio.toFixed(2)} ${walker.currentNode.data.trim().slice(0, 30)}`);
  }
  const scheme = luminance(painted([bottom])) < 0.5 ? "dark" : "light";
  document.title = `${scheme}, ${seen > 15 ? "many" : seen} texts, too low: ${low.join("; ")}`;
});
