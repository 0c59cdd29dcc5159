"""The look of outlast's pages: light, dark and on paper, from a phone's 360 pixels upwards."""

_LIGHT = """
--page: #ffffff; --panel: #f5f7f9; --ink: #1a1d21; --quiet: #555f6b; --line: #d5dbe2;
--good: #0a6639; --good-back: #e2f4e9; --bad: #9f1414; --bad-back: #fde9e8; --open: #6f4400; --open-back: #fff0d3;
--start: #c3ccd6; --work: #4878b8; --lost: #c62f2f; --lost-back: #f8cfcc; --save: #0d7a45; --notice: #b36a00;
"""
_DARK = """
--page: #14171a; --panel: #1d2227; --ink: #e7eaee; --quiet: #a6b0bb; --line: #3a424b;
--good: #7bdca5; --good-back: #12301f; --bad: #ffa6a2; --bad-back: #3d1719; --open: #f2c470; --open-back: #33270d;
--start: #4c5763; --work: #6f9fdd; --lost: #ff8079; --lost-back: #5b2526; --save: #63d596; --notice: #f0ad45;
"""

STYLE = (
    f":root {{ color-scheme: light dark; {_LIGHT} }}\n"
    f"@media (prefers-color-scheme: dark) {{ :root {{ {_DARK} }} }}\n"
    f"@media print {{ :root {{ color-scheme: light; {_LIGHT} print-color-adjust: exact; }} }}\n"
    """
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 1.25rem 1rem 3rem; background: var(--page); color: var(--ink);
  font: 1rem/1.5 system-ui, "DejaVu Sans", sans-serif; overflow-wrap: break-word; }
h1, h2, h3 { line-height: 1.25; margin: 0; }
h1 { font-size: 1.15rem; font-weight: 600; }
h2 { font-size: 1.1rem; margin: 2.25rem 0 .6rem; padding-top: 1rem; border-top: 1px solid var(--line); }
h3 { font-size: 1rem; font-weight: 600; }
p { margin: .4rem 0; }
ul, ol { margin: .4rem 0; padding-left: 1.2rem; }
li { margin: .25rem 0; }
code, pre, .foreign { overflow-wrap: anywhere; }
.foreign { unicode-bidi: isolate; }
code, pre, .command { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .9em; }
pre { background: var(--panel); padding: .75rem; margin: .5rem 0; white-space: pre-wrap; border-radius: .4rem; }
.quiet { color: var(--quiet); font-size: .9rem; }
.verdict { border-radius: .6rem; padding: 1rem; margin: .75rem 0; border: 1px solid currentColor; }
.verdict .word { font-size: 1.6rem; font-weight: 700; line-height: 1.2; margin: 0; }
.verdict ul, .verdict .because { color: var(--ink); }
.good { color: var(--good); } .bad { color: var(--bad); } .open { color: var(--open); }
.verdict.good, .chip.good { background: var(--good-back); }
.verdict.bad, .chip.bad { background: var(--bad-back); }
.verdict.open, .chip.open { background: var(--open-back); }
.chip { display: inline-block; border-radius: 1rem; padding: 0 .6rem; font-size: .85rem; font-weight: 600;
  white-space: nowrap; }
dl.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(9rem, 1fr)); gap: .6rem 1rem;
  margin: 1rem 0; }
dl.facts dt { color: var(--quiet); font-size: .85rem; }
dl.facts dd { margin: 0; font-weight: 600; }
table { border-collapse: collapse; width: 100%; margin: .6rem 0; font-size: .95rem; }
caption { text-align: left; color: var(--quiet); font-size: .9rem; padding-bottom: .3rem; }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem .35rem 0; border-bottom: 1px solid var(--line); }
th { font-weight: 600; } thead th { font-size: .85rem; color: var(--quiet); }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
thead .number, .number .quiet { white-space: normal; }
.words { min-width: 6rem; }
.number .quiet { font-size: .8rem; }
svg { display: block; width: 100%; overflow: visible; }
svg text { fill: var(--quiet); font-size: 12px; font-family: inherit; }
ol.timeline, ul.bars { list-style: none; padding: 0; }
ol.timeline li, ul.bars li { margin: .8rem 0; break-inside: avoid; }
.head { display: flex; flex-wrap: wrap; gap: .1rem .6rem; align-items: baseline; margin: 0 0 .2rem; }
.plot { padding: 0 8px; }
ul.legend { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; font-size: .85rem;
  color: var(--quiet); }
ul.legend svg { display: inline-block; width: 22px; height: 16px; vertical-align: -3px; margin-right: .35rem; }
.track { fill: var(--panel); stroke: var(--line); } .start { fill: var(--start); } .work { fill: var(--work); }
.lost { fill: url(#lost); stroke: var(--lost); } .unsaved { fill: url(#unsaved); stroke: var(--notice); }
.lost-line { stroke: var(--lost); } .lost-back { fill: var(--lost-back); }
.unsaved-line { stroke: var(--notice); } .unsaved-back { fill: var(--page); }
.grace { fill: var(--notice); opacity: .35; }
.save { fill: var(--save); stroke: var(--page); } .cut { stroke: var(--lost); fill: var(--page); }
.notice { fill: var(--notice); stroke: var(--page); }
.kill { stroke: var(--lost); stroke-width: 3; } .done { stroke: var(--good); stroke-width: 3; fill: none; }
.axis { stroke: var(--line); } .halo { stroke: var(--page); stroke-width: 6; fill: none; }
.inside { fill: var(--work); } .over { fill: var(--lost); } .stall { fill: var(--save); }
.restore { fill: var(--notice); }
svg.swatch { display: inline-block; width: 12px; margin-right: .5rem; vertical-align: -1px; }
.defs { position: absolute; width: 0; height: 0; }
@media (max-width: 30rem) { body { padding: .9rem .75rem 2rem; } table { font-size: .85rem; } }
@media print { body { max-width: none; padding: 0; } h2 { break-after: avoid; } tr { break-inside: avoid; } }
"""
)
