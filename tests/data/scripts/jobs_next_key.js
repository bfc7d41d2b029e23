goal => {
    const at = document.activeElement, [rows, choices] = [".carrel-rows tbody", "[role=radiogroup]"];
    if (goal === at || (goal.contains(at) && !at.matches(rows))) return "";
    const after = goal.compareDocumentPosition(at) & Node.DOCUMENT_POSITION_PRECEDING;
    if (goal.matches(".carrel-row") && goal.closest(rows).contains(at)) return after ? "ArrowDown" : "ArrowUp";
    if (goal.closest(choices)?.contains(at)) return after ? "ArrowRight" : "ArrowLeft";
    return "Tab";
}
