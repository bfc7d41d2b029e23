(() => {
    const turn = (text) => {
        const put = document.createElement("font");
        put.append(document.createElement("font"));
        put.firstChild.textContent = text.data;
        text.replaceWith(put);
    };
    const visit = (root) => {
        const walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT), texts = [];
        while (walk.nextNode()) texts.push(walk.currentNode);
        const kept = "font, style, script, textarea, [translate=no]";
        texts.filter((text) => text.data.trim() && !text.parentElement.closest(kept)).forEach(turn);
    };
    const see = (changes) => changes.forEach(({ addedNodes }) => addedNodes.forEach(visit));
    addEventListener("DOMContentLoaded", () =>
        new MutationObserver(see).observe(document.body, { childList: true, subtree: true }));
})()