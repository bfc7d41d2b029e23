(() => {
    const send = WebSocket.prototype.send;
    window.told = window.drawn = 0;
    WebSocket.prototype.send = function (message) { window.told = performance.now(); return send.call(this, message); };
    // Streamlit sends typed text a moment later.
    document.addEventListener("input", () => { window.told = performance.now() + 150; }, true);
    const look = () => {
        const now = performance.now();
        if (window.told <= now && document.querySelector(DRAWN)) [window.told, window.drawn] = [0, now];
    };
    new MutationObserver(look).observe(document, {subtree: true, attributeFilter: ["data-test-script-state"]});
})()
