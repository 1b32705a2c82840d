export const PAGE_STYLE = `:root {
  color-scheme: light dark;
  --ink: #1c2733; --quiet: #5d6b7a; --paper: #f6f7f9; --card: #fff; --line: #d9dee4;
  --resident: #1f8a5b; --loading: #d99a1c; --bad: #c2513a; --absent: #dfe3e8; --accent: #2563c9;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e4e9ee; --quiet: #93a1b0; --paper: #12171d; --card: #1a2129; --line: #2d3741;
    --resident: #35b37c; --loading: #e0ab3c; --bad: #e0755e; --absent: #2b343e; --accent: #6ea0f0;
  }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 1.5rem; background: var(--paper); color: var(--ink);
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
select, input, button { font: inherit; color: inherit; background: var(--paper); border: 1px solid var(--line);
  border-radius: .35rem; padding: .35rem .6rem; }
input { width: 100%; }
button { background: var(--accent); border-color: var(--accent); color: #fff; cursor: pointer; }
button:disabled { opacity: .6; cursor: wait; }
[hidden] { display: none !important; }
#access-form { margin-top: .6rem; }
#access-form.given label, #access-form.given button[type=submit] { display: none; }
#answer { margin-top: .8rem; }
#answer .bar { margin: .15rem 0 .5rem; }
#answer .error { color: var(--bad); }
.legend i, .layer i { display: inline-block; width: .8rem; height: .8rem; border-radius: .15rem; }
.legend { color: var(--quiet); font-size: .9rem; margin-bottom: .6rem; }
.legend i { vertical-align: -1px; margin-left: .6rem; }
.layer { display: flex; gap: .8rem; align-items: flex-start; margin-bottom: .5rem; }
.layer > span { flex: 0 0 6.5rem; font-size: .9rem; }
.layer > div { display: flex; flex-wrap: wrap; gap: 2px; }
.absent { background: var(--absent); }
.resident { background: var(--resident); }
.loading { background: var(--loading); }
.pinned { outline: 2px solid var(--ink); outline-offset: -2px; }
footer a { color: var(--accent); margin-right: .8rem; }
`;
