// Offers the other versions of this site, which docs/site.py lists in versions.js beside their folders: the same page
// where a version has it, and its first page otherwise. A script is read from a server and from files alike.
const root = new URL(`${JSON.parse(document.getElementById("__config").textContent).base}/`, location.href)
const list = document.createElement("script")
list.src = new URL("../versions.js", root)
list.onload = () => {
  const own = decodeURIComponent(root.pathname.split("/").at(-2))
  const page = decodeURIComponent(location.pathname.slice(root.pathname.length)) || "index.html"
  const choice = document.createElement("select")
  choice.className = "versions"
  choice.setAttribute("aria-label", "Version of this documentation")
  for (const { version, pages } of window.documentationVersions) {
    const target = new URL(`../${version}/${pages.includes(page) ? page : "index.html"}`, root)
    choice.add(new Option(version, target, false, version === own))
  }
  choice.onchange = () => location.assign(choice.value)
  document.querySelector(".md-header__topic").append(choice)
}
document.head.append(list)
