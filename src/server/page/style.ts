export const PAGE_STYLE = `:root {
  color-scheme: light dark;
  --ink: #1c2733; --quiet: #5d6b7a; --paper: #f6f7f9; --card: #fff; --line: #d9dee4;
  --resident: #1f8a5b; --loading: #d99a1c; --bad: #c2513a; --absent: #dfe3e8; --accent: #2563c9;
  --used: #a5f0c8; --on-accent: #fff;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e4e9ee; --quiet: #93a1b0; --paper: #12171d; --card: #1a2129; --line: #2d3741;
    --resident: #35b37c; --loading: #e0ab3c; --bad: #e0755e; --absent: #2b343e; --accent: #6ea0f0;
    --used: #d6ffe9; --on-accent: #0b1626;
  }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 80rem; padding: 1.5rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
header { display: flex; flex-wrap: wrap; align-items: baseline; gap: 0 1rem; }
h1, h2, p { margin: 0; }
h1 { font-size: 1.5rem; }
h2 { font-size: 1.05rem; margin-bottom: .6rem; }
section { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: 1rem; margin: 1rem 0; }
.quiet { color: var(--quiet); font-size: .9rem; font-weight: normal; }
.badge { border-radius: 1rem; padding: .1rem .6rem; background: var(--absent); font-size: .85rem; }
.badge.ok { background: var(--resident); color: #fff; }
.badge.wait { background: var(--loading); color: #1c1400; }
.badge.bad { background: var(--bad); color: #fff; }
.bar { position: relative; height: 1rem; border-radius: .5rem; background: var(--absent); overflow: hidden; margin-bottom: .4rem; }
.bar > div { height: 100%; width: 0; background: var(--accent); }
.bar > i { position: absolute; top: 0; bottom: 0; width: 2px; left: -2px; background: var(--ink); }
label { display: block; margin-bottom: .5rem; }
select, input, textarea, button { font: inherit; color: inherit; background: var(--paper); border: 1px solid var(--line);
  border-radius: .35rem; padding: .35rem .6rem; }
input, textarea { width: 100%; }
textarea { display: block; resize: vertical; }
button { background: var(--accent); border-color: var(--accent); color: var(--on-accent); cursor: pointer; }
button:disabled { opacity: .6; cursor: wait; }
button.plain { background: none; border-color: var(--line); color: var(--ink); }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
.tools { display: flex; flex-wrap: wrap; gap: .5rem; align-items: center; }
.tools > label, .tools > h2 { margin: 0; }
.tools > button, .tools > .tools { margin-left: auto; }
[hidden] { display: none !important; }
#access-form { margin-top: .6rem; }
#access-form.given label, #access-form.given button[type=submit] { display: none; }
#answer { margin-top: .8rem; }
#answer .bar { margin: .15rem 0 .5rem; }
#answer .error { color: var(--bad); }
#chat-log { margin: .6rem 0; min-height: 10rem; max-height: 60vh; overflow-y: auto; border: 1px solid var(--line);
  border-radius: .35rem; background: var(--paper); padding: .8rem; }
#chat-log:empty::before { content: 'Answers appear here.'; color: var(--quiet); }
#chat-text { margin-top: .6rem; }
#chat-state { min-height: 1.5em; margin-bottom: .4rem; }
.message { margin-bottom: .8rem; }
.message .who { font-size: .85rem; font-weight: 600; color: var(--quiet); }
.message .text { white-space: pre-wrap; overflow-wrap: anywhere; }
.message.user .text { border-left: 3px solid var(--accent); padding-left: .6rem; }
.message.error .text { color: var(--bad); }
.message details { margin: .2rem 0 .4rem; }
.legend i, .layer i { display: inline-block; width: .8rem; height: .8rem; border-radius: .15rem; }
.legend { color: var(--quiet); font-size: .9rem; margin-bottom: .6rem; }
.legend { display: flex; flex-wrap: wrap; gap: 0 .8rem; }
.legend i { vertical-align: -1px; margin-right: .3rem; }
.layer { display: flex; gap: .8rem; align-items: flex-start; margin-bottom: .5rem; }
.layer > span { flex: 0 0 5.5rem; font-size: .9rem; }
.layer > div { display: flex; flex-wrap: wrap; gap: 2px; }
.absent { background: var(--absent); }
.resident { background: var(--resident); }
.loading { background: var(--loading); }
.pinned { outline: 2px solid var(--ink); outline-offset: -2px; }
.used { box-shadow: inset 0 0 0 .2rem var(--used); }
@media (min-width: 60rem) {
  main { display: grid; grid-template: "access access" "budget budget" "chat experts" "try experts" 1fr
    / minmax(0, 3fr) minmax(0, 2fr); column-gap: 1rem; align-items: start; }
  main > section { margin: .5rem 0; }
  #access { grid-area: access; }
  #budget-section { grid-area: budget; }
  #chat-section { grid-area: chat; }
  #experts-section { grid-area: experts; position: sticky; top: .5rem; }
  #try-section { grid-area: try; }
}
table { border-collapse: collapse; margin: .4rem 0; font-size: .9rem; }
td { border-top: 1px solid var(--line); padding: .2rem .6rem .2rem 0; vertical-align: top; }
summary { cursor: pointer; padding: .2rem 0; }
footer a { color: var(--accent); margin-right: .8rem; }
`;
