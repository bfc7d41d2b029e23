"""The few rules of style beside Streamlit's theme; they hold in its light and its dark form."""

WAITING = """<style>
.stAppSkeleton > * { display: none; }
.stAppSkeleton::before { content: ""; display: block; height: 30rem;
  --tint: color-mix(in srgb, currentColor 12%, transparent); background:
  linear-gradient(var(--tint) 0 0) 0 .4rem / 12rem 1.6rem no-repeat,
  linear-gradient(var(--tint) 0 0) 0 3.25rem / 100% 2.5rem no-repeat,
  repeating-linear-gradient(transparent 0 .5rem, var(--tint) .5rem 1.25rem, transparent 1.25rem 1.75rem)
  0 6.5rem / 100% 100% no-repeat; }
</style>"""
"""What is shown before a page's first run, in its shape: a title, a line of fields, and rows."""

STYLE = """<style>
[data-testid="stHtml"] a:not(.carrel-action) { color: inherit; text-underline-offset: .2em;
  text-decoration-color: color-mix(in srgb, currentColor 45%, transparent); }
[data-testid="stHtml"] a:not(.carrel-action):hover { text-decoration-color: currentColor; }
[data-testid="stMainBlockContainer"] { max-width: 72rem; padding-top: 3.25rem; }
[data-testid="stMainBlockContainer"] > [data-testid="stVerticalBlock"] { gap: .75rem; }
@media (min-width: 60rem) { [data-testid="stMainBlockContainer"] { padding: 2rem 3rem 4rem; } }
/* Streamlit's bar at the top is empty but for its few buttons: what lies under it shall take clicks. */
[data-testid="stHeader"] { background: none; pointer-events: none; }
[data-testid="stHeader"] :is(button, a, [role="button"]) { pointer-events: auto; }
[data-testid="stHeading"] h1 { font-size: 1.6rem; line-height: 2.5rem; padding: 0; }
[data-testid="stHeading"] :is(h2, h3) { font-size: 1.15rem; line-height: 1.3; padding: .5rem 0; }
/* Of Streamlit's own, these are hard to read: hints and names of fields that are off, and what is chosen or leads on
   in the dark. */
.stApp [data-testid="stWidgetLabel"], .stApp [data-testid="stWidgetLabel"] p { color: inherit; }
.stApp [data-testid="stCaptionContainer"] { color: inherit; opacity: .75; }
.stApp :is(button[data-selected="true"], [data-testid="stBaseButton-tertiary"]:hover) :is(p, span, code) {
  color: light-dark(#1f5f6b, #6fb9c6); }
.st-key-title .carrel-facts a { display: inline-block; padding: .35rem .25rem; }
.st-key-title-action { flex: 1 0 auto; }
.st-key-title > :not(.st-key-title-action, :has(.st-key-title-action)) { flex: none; width: auto; }
@media (max-width: 40rem) {
  .st-key-title { gap: .6rem; flex-wrap: wrap; }
  .st-key-title h1 { font-size: 1.4rem; }
  .st-key-title [data-testid="stTooltipIcon"] { display: none; }
  .st-key-title > :is(.st-key-title-action, :has(> .st-key-title-action)) {
    flex: none; width: auto; margin-left: auto; }
  .st-key-title-action { gap: .5rem; }
  .st-key-title-action button { padding-inline: .6rem; }
  .st-key-title-action button :has(> [data-testid="stIconMaterial"]) { display: none; }
}
.carrel-unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
[class*="st-key-membership-"] > * { flex: 1 1 0; }
[class*="st-key-membership-"] > :has([data-testid="stButton"]) { flex: none; }
.carrel-count { margin: 0; font-variant-numeric: tabular-nums;
  color: color-mix(in srgb, currentColor 72%, transparent); }
[class*="st-key-filters-"] > * { flex: 1 1 9rem; max-width: 24rem; }
[class*="st-key-filters-"] > :first-child { flex-grow: 2; }
[class*="st-key-filters-"] > :has([data-testid="stDateInput"]) { flex-basis: 12rem; }
[class*="st-key-filters-"] [data-testid="stDateInput"] { display: flex; align-items: center; gap: .5rem; }
[class*="st-key-filters-"] [data-testid="stDateInput"] > :last-child { flex: 1; min-width: 0; }
[class*="st-key-filters-"] [data-testid="stDateInput"] label { flex: none; width: 2.25rem; margin: 0; }
.st-key-filters-toggle { display: none; }
@media (max-width: 40rem) {
  [class*="st-key-filters-"] > .st-key-filters-toggle { display: block; flex: none; width: auto; order: 1; }
  :is(.st-key-filters-open, .st-key-filters-folded) > :first-child { flex: 1 1 8rem; min-width: 8rem; }
  [class*="st-key-filters-"] > :first-child + .st-key-filters-toggle,
  [class*="st-key-filters-"] > :first-child + :has(.st-key-filters-toggle) { display: none; }
  .st-key-filters-open > :not(:first-child, :has(.st-key-filters-toggle)) { order: 2; flex: 1 0 100%; }
  .st-key-filters-folded > :not(:first-child, .st-key-filters-toggle, :has(.st-key-filters-toggle)) { display: none; }
}
/* It would have the rows that are shown and no others, and cells that spreadsheets compute; pages export themselves. */
.st-key-load details:not([open]) { width: fit-content; }
[data-testid="stElementToolbar"] [aria-label="Download as CSV"] { display: none; }
/* "Press Enter to …" would lie over what is typed: over the end of a line, and over the last line of an area. */
[data-testid="stTextInput"] [data-testid="InputInstructions"] { display: none; }
[data-testid="stTextArea"] [data-testid="InputInstructions"] > :first-child:not(:last-child) { display: none; }
.carrel-result header { display: flex; gap: 1rem; align-items: center; justify-content: space-between; }
.carrel-result :is(h2, h3) { font-size: 1.05rem; font-weight: 600; padding: 0; margin: 0; overflow-wrap: anywhere; }
/* As many results in a window as there can be: what is done with one stands close below it. */
[class*="st-key-result-"] { padding-block: .6rem .35rem; }
[class*="st-key-result-"] [data-testid="stBaseButton-tertiary"] { min-height: 1.75rem; padding-block: 0; }
.carrel-icon { font-family: "Material Symbols Rounded"; font-weight: 400; font-size: 1.25em; line-height: 1;
  display: inline-block; width: 1em; overflow: hidden; vertical-align: -.2em; margin-right: .35em; opacity: .75; }
.carrel-result details { margin: .5rem 0; }
.carrel-result summary { cursor: pointer; font-size: .875rem; opacity: .75; }
.carrel-relevance { flex: none; width: 6rem; font-size: .8rem; font-variant-numeric: tabular-nums; }
.carrel-score { height: .4rem; border-radius: .2rem; overflow: hidden;
  background: color-mix(in srgb, currentColor 14%, transparent); }
.carrel-score span { display: block; height: 100%; background: #2f8594; }
.carrel-passage { line-height: 1.5; margin: .5rem 0; overflow-wrap: anywhere; }
.carrel-result .carrel-passage { margin: .2rem 0; }
.carrel-passage + .carrel-passage { border-top: 1px dashed color-mix(in srgb, currentColor 25%, transparent);
  padding-top: .5rem; }
:is(.carrel-passage, .carrel-chunk) mark { background: #fde68a; color: #1c1917; padding: 0 .1em; border-radius: .15em; }
.carrel-page { position: relative; width: 100%; max-width: 60rem; border: 1px solid
  color-mix(in srgb, currentColor 25%, transparent); }
.carrel-page img { display: block; width: 100%; }
.carrel-page-mark { position: absolute; background: #fde68a; mix-blend-mode: multiply; outline: 2px solid #b45309; }
:is(.carrel-page-mark, .carrel-chunk mark) { scroll-margin: 9rem; }
.carrel-place { font-size: .875rem; font-weight: normal; opacity: .75; overflow-wrap: anywhere; }
.carrel-facts { font-size: .875rem; opacity: .75; margin: 0; overflow-wrap: anywhere; }
.carrel-notice { border-left: .25rem solid; border-radius: .25rem; padding: .75rem 1rem; overflow-wrap: anywhere; }
.carrel-notice p { margin: 0; }
.carrel-notice p + p { margin-top: .4rem; font-size: .875rem; opacity: .8; }
.carrel-problem { border-color: #d92d20; background: color-mix(in srgb, #d92d20 12%, transparent); }
.carrel-warning { border-color: #dc8a04; background: color-mix(in srgb, #dc8a04 14%, transparent); }
.carrel-text { margin: 0; overflow-wrap: anywhere; }
.carrel-empty { border: 1px dashed color-mix(in srgb, currentColor 30%, transparent); border-radius: .5rem;
  padding: 2rem 1.5rem; text-align: center; }
.carrel-empty p { margin: 0; }
.carrel-empty-title { font-weight: 600; }
.carrel-empty p + p { margin-top: .4rem; opacity: .75; }
.carrel-name { font-size: 1.35rem; font-weight: 600; padding: 0; margin: 0 0 .25rem; overflow-wrap: anywhere; }
.carrel-chunk { display: grid; grid-template-columns: 3.5rem 1fr; gap: .25rem .75rem; margin: .25rem 0; }
.carrel-chunk p { margin: 0; overflow-wrap: anywhere; white-space: pre-wrap; line-height: 1.5; }
.carrel-chunk > p:first-child { opacity: .75; font-variant-numeric: tabular-nums; text-align: right; }
.carrel-sheet { overflow-x: auto; }
.carrel-sheet .carrel-table :is(th, td) { overflow-wrap: normal; }
.carrel-sheet .carrel-table th[scope="row"] { width: 1%; white-space: nowrap; }
.carrel-fine { border-color: #2f855a; background: color-mix(in srgb, #2f855a 12%, transparent); }
.carrel-health section { display: grid; grid-template-columns: 8rem 6rem 1fr; gap: .25rem 1rem; padding: .75rem 1rem;
  border: 0 solid currentColor; border-bottom: 1px solid color-mix(in srgb, currentColor 15%, transparent);
  background: none; overflow-wrap: anywhere; }
.carrel-health h2 { font-size: 1rem; font-weight: 600; padding: 0; margin: 0; }
.carrel-health p { margin: 0; }
.carrel-health p + p { margin-top: .3rem; font-size: .875rem; opacity: .8; }
@media (max-width: 40rem) {
  .carrel-health section { grid-template-columns: 1fr auto; padding: .75rem 0; }
  .carrel-health section > div { grid-column: 1 / -1; }
}
.carrel-level::before { content: "●"; margin-right: .4rem; }
.carrel-health .carrel-is-fine .carrel-level::before { color: #2f855a; }
.carrel-health .carrel-is-busy .carrel-level::before { color: #2f7fb8; }
.carrel-health .carrel-is-trouble .carrel-level::before { color: #d92d20; }
.carrel-welcome { max-width: 30rem; margin: 12vh auto; text-align: center; }
.carrel-action { display: inline-block; padding: .5rem 1.25rem; border-radius: .4rem; background: #1f5f6b;
  color: #fff !important; text-decoration: none !important; }
.carrel-action:focus-visible { outline: 2px solid currentColor; outline-offset: 2px; }
/* An admin's whole menu fits in a window of 800 pixels. */
[data-testid="stSidebarHeader"] { margin-bottom: .25rem; }
[data-testid="stSidebarNavItems"] > div + div { margin-top: .45rem; }
[data-testid="stNavSectionHeader"] { margin: 0; min-height: 0; }
[data-testid="stNavSectionHeader"] * { line-height: 1.15rem; }
[data-testid="stSidebarNavItems"] li { margin: 0; }
[data-testid="stSidebarNavLink"] { min-height: 1.55rem; margin-block: 0; padding-block: 0; }
[data-testid="stSidebarNavLink"] * { line-height: 1.4rem; }
[data-testid="stSidebarNavLink"][data-current] { font-weight: 600;
  background: color-mix(in srgb, currentColor 12%, transparent); }
@media (pointer: coarse) {
  [data-testid="stSidebarNavLink"] { min-height: 2.5rem; }
}
/* Who is signed in, and the way out, stand below the menu however long that is. */
[data-testid="stSidebarContent"] { background: inherit; }
[data-testid="stSidebarUserContent"] { position: sticky; bottom: 0; padding-block: .75rem 1rem; background: inherit;
  border-top: 1px solid color-mix(in srgb, currentColor 15%, transparent); }
/* A menu longer than the window fades out above them: there is more below. */
[data-testid="stSidebarUserContent"]::before { content: ""; position: absolute; inset: -2rem 0 auto; height: 2rem;
  background: inherit; mask-image: linear-gradient(transparent, #000); pointer-events: none; }
.carrel-person { display: grid; grid-template-columns: 1fr auto; align-items: center; gap: 0 .75rem; }
.carrel-person p { grid-column: 1 / -1; margin: 0; min-width: 0; overflow: hidden; text-overflow: ellipsis;
  white-space: nowrap; }
.carrel-person small { color: color-mix(in srgb, currentColor 75%, transparent); }
.carrel-person a { padding: .35rem 0; }
.carrel-table { width: 100%; border-collapse: collapse; font-size: .9rem; }
.carrel-table th, .carrel-table td { text-align: left; vertical-align: top; padding: .35rem .75rem .35rem 0; border: 0;
  border-bottom: 1px solid color-mix(in srgb, currentColor 15%, transparent); overflow-wrap: anywhere; }
.carrel-table td:first-child { min-width: 9rem; }
.carrel-table th[scope="row"] { width: 14rem; }
.carrel-rows table { width: 100%; margin: 0; border-collapse: collapse; font-size: .875rem; line-height: 1.25rem; }
.carrel-rows :is(th, td) { padding: .25rem .75rem .25rem .5rem; border: 0; text-align: left; font-weight: 400;
  white-space: nowrap; overflow: hidden; text-overflow: ellipsis; max-width: 17rem;
  border-bottom: 1px solid color-mix(in srgb, currentColor 12%, transparent); }
.carrel-rows thead :is(th, td) { position: sticky; top: 0; z-index: 1; font-size: .8125rem;
  color: color-mix(in srgb, currentColor 72%, transparent); background: var(--st-background-color); }
.carrel-rows .is-wide { width: 50%; max-width: 0; min-width: 10rem; }
.carrel-rows .is-small { max-width: 10rem; }
.carrel-rows .is-number { text-align: right; font-variant-numeric: tabular-nums; }
.carrel-rows .is-box { width: 1%; padding-right: 0; }
.carrel-rows input { width: 1rem; height: 1rem; margin: 0; vertical-align: -.15rem; accent-color: #2f8594; }
.carrel-rows tbody tr { cursor: pointer; }
.carrel-rows tbody tr:hover { background: color-mix(in srgb, #2f8594 10%, transparent); }
.carrel-rows tbody tr.is-chosen { background: color-mix(in srgb, #2f8594 20%, transparent); }
.carrel-rows tbody tr:has(:focus-visible) { outline: 2px solid #2f8594; outline-offset: -2px; }
.carrel-rows button { all: unset; display: block; width: 100%; overflow: hidden; text-overflow: ellipsis;
  font-weight: 500; cursor: pointer; }
.carrel-rows.is-open tr:hover button { text-decoration: underline; text-underline-offset: .2em; }
/* Below the rows stands what is about the chosen ones: it shall be seen when they are chosen. */
.carrel-rows:is(.is-one, .is-many) { max-height: 24rem; overflow-y: auto; }
@media (max-width: 40rem) {
  .carrel-rows thead { display: none; }
  .carrel-rows :is(table, tbody) { display: block; }
  .carrel-rows tr { display: flex; flex-wrap: wrap; align-content: center; gap: 0 .75rem; min-height: 2.75rem;
    padding: .4rem .25rem; border-bottom: 1px solid color-mix(in srgb, currentColor 15%, transparent); }
  .carrel-rows :is(th, td) { display: block; width: auto !important; min-width: 0 !important;
    max-width: 100% !important; padding: 0; border: 0; font-size: .8125rem;
    color: color-mix(in srgb, currentColor 72%, transparent); }
  .carrel-rows th { flex: 1 0 100%; font-size: 1rem; color: inherit; white-space: normal; overflow-wrap: anywhere; }
  .carrel-rows .is-empty { display: none; }
  .carrel-rows td[data-label]::before { content: attr(data-label) " "; }
  .carrel-rows.is-many th { flex: 1 0 80%; }
}
.carrel-table th { font-weight: 600; opacity: .75; white-space: nowrap; }
@media (max-width: 40rem) {
  .carrel-table td:first-child { min-width: 6rem; }
  .carrel-table th[scope="row"] { width: 35%; white-space: normal; }
  /* Numbers stand side by side, as on a screen, and not one below the other. */
  [data-testid="stHorizontalBlock"]:has([data-testid="stMetric"]) { flex-wrap: nowrap; }
  [data-testid="stHorizontalBlock"] > [data-testid="stColumn"]:has([data-testid="stMetric"]) { min-width: 0; }
  [data-testid="stMetricValue"] { font-size: 1.4rem; }
}
[data-testid="stColumn"]:has(.st-key-chat-side, .st-key-original-passage) { position: sticky; top: 4rem;
  align-self: flex-start; }
.st-key-chat-side { max-height: calc(100vh - 11rem); overflow-y: auto; }
.st-key-original-passage { max-height: calc(100vh - 5rem); overflow-y: auto; }
@media (min-width: 40.0625rem) { .st-key-chat-list { display: none; } }
@media (max-width: 40rem) {
  [data-testid="stColumn"]:has(.st-key-chat-side, .st-key-original-passage) { position: static; }
  :is(.st-key-chat-side, .st-key-original-passage) { max-height: none; }
  .st-key-chat-listed-folded { display: none; }
  .st-key-chat-listed-open { max-height: 45vh; overflow-y: auto; }
}
.st-key-chat-side [data-testid="stBaseButton-tertiary"] :is(div, span) { justify-content: flex-start; }
/* Names on buttons stand as code, in which Markdown means nothing; they shall read as the other words do. */
[data-testid="stButton"] button code { font: inherit; color: inherit; background: none; padding: 0; }
.st-key-chat-side button code { white-space: normal; text-align: left;
  display: -webkit-box; -webkit-line-clamp: 2; -webkit-box-orient: vertical; overflow: hidden; }
.st-key-chat-side [class*="-current"] { border-left: .2rem solid #2f8594; padding-left: .5rem; }
.carrel-message .carrel-passage { margin: 0; max-height: 24rem; overflow-y: auto; }
.carrel-said { container-type: inline-size; overflow-wrap: anywhere; }
.carrel-reply { line-height: 1.55; }
.carrel-reply > :first-child { margin-top: 0; }
.carrel-reply :is(h1, h2, h3, h4, h5, h6) {
  font-size: 1.05rem; font-weight: 600; padding: 0; margin: .75rem 0 .25rem; }
.carrel-reply :is(pre, table) { display: block; max-width: 100%; overflow-x: auto; }
.carrel-reply :is(th, td) {
  border: 1px solid color-mix(in srgb, currentColor 20%, transparent); padding: .25rem .5rem; }
.carrel-chip, .carrel-number { display: inline-block; min-width: 1.25rem; padding: 0 .3rem; border-radius: .65rem;
  font-size: .75rem; line-height: 1.25rem; text-align: center; font-variant-numeric: tabular-nums;
  background: color-mix(in srgb, currentColor 14%, transparent); color: inherit !important;
  text-decoration: none !important; }
.carrel-chip:hover, .carrel-chip:focus-visible { background: #1f5f6b; color: #fff !important; }
.carrel-sources { margin-top: .75rem; padding-top: .5rem; font-size: .875rem;
  border-top: 1px solid color-mix(in srgb, currentColor 18%, transparent); }
.carrel-sources :is(p, ol, li, blockquote) { font-size: inherit; }
.carrel-sources > summary { margin: 0 0 .25rem; padding: .25rem 0; font-weight: 600; cursor: pointer;
  color: color-mix(in srgb, currentColor 80%, transparent); }
.carrel-sources ol { list-style: none; margin: 0; padding: 0; }
.carrel-sources li { display: grid; grid-template-columns: auto 1fr; gap: .5rem; margin: 0 0 .75rem; padding: .25rem;
  border-radius: .25rem; scroll-margin: 6rem; }
.carrel-sources li:target { background: color-mix(in srgb, #2f8594 22%, transparent); }
.carrel-sources blockquote { margin: .25rem 0; padding: 0 0 0 .6rem; white-space: pre-wrap; opacity: 1; color: inherit;
  border-left: .2rem solid color-mix(in srgb, currentColor 25%, transparent); max-height: 9rem; overflow-y: auto; }
.carrel-skeleton span { display: block; height: .9rem; margin: .5rem 0; border-radius: .3rem;
  background: color-mix(in srgb, currentColor 12%, transparent); animation: carrel-wait 1.6s ease-in-out infinite; }
.carrel-skeleton span:last-child { width: 55%; }
.carrel-skeletons { animation: carrel-appear .15s step-end; }
.carrel-skeletons .carrel-skeleton { min-height: 9rem; margin-bottom: .75rem; padding: 1rem; border-radius: .5rem;
  border: 1px solid color-mix(in srgb, currentColor 20%, transparent); }
.carrel-skeletons .carrel-skeleton span:first-child { width: 35%; height: 1.1rem; }
@keyframes carrel-appear { from { opacity: 0; } }
/* In place of a list's rows, until what draws them is loaded. */
[data-testid="stMain"] [data-testid="stSkeleton"] { background: repeating-linear-gradient(transparent 0 .5rem,
  color-mix(in srgb, currentColor 12%, transparent) .5rem 1.25rem, transparent 1.25rem 1.75rem) !important; }
@keyframes carrel-wait { 50% { opacity: .45; } }
@media (prefers-reduced-motion: reduce) { .carrel-skeleton span { animation: none; } }
.carrel-busy { opacity: .75; margin: 0; }
.carrel-number { align-self: start; }
.carrel-reply blockquote { margin: .5rem 0; padding: 0 0 0 .75rem; opacity: 1; color: inherit;
  border-left: .2rem solid color-mix(in srgb, currentColor 25%, transparent); }
@container (min-width: 34rem) {
  .carrel-wide { display: grid; grid-template-columns: minmax(0, 3fr) minmax(0, 2fr); gap: 1.25rem; }
  .carrel-wide .carrel-sources::details-content { content-visibility: visible; height: auto; }
  .carrel-wide .carrel-sources > summary { list-style: none; cursor: default; }
  .carrel-wide .carrel-sources { margin: 0; padding: 0 0 0 1rem; border-top: 0;
    border-left: 1px solid color-mix(in srgb, currentColor 18%, transparent); }
}
</style>"""
