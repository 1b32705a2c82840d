/** P8, P17, P22 and P23: what prediction gains and costs servers that answer side by side. */
import type { Interval } from '../../../../dist/evaluation/paired-difference.js';
import { parseBytes } from '../../../../dist/text/bytes.js';
import { CANNOT_TELL, DASH, NOT_MEASURED, percent, times } from '../format.js';
import { WORTH } from '../ratios.js';
import { type Recorded, recorded } from './recorded.js';
import { judged, type TargetRow } from './target-row.js';

/** Of bench/results/governor*.json: one model, a row for each budget. */
interface Governed extends Recorded {
  model: string;
  task: string;
  linkBandwidth?: string | null;
  /** Requests at a time; absent: one. */
  clients?: number;
  rows: {
    budget: string;
    requests: number;
    /**
     * Time over that of `--predictor none`, less 1: of the defaults, of prediction that nothing governs, and of
     * `--predictor none` in another process.
     */
    defaults: Interval;
    ungoverned: Interval;
    again: Interval;
  }[];
}

/** Of bench/results/decode-systems.json: a row for each link and system. */
interface DecodeSystems extends Recorded {
  model: string;
  budget: string;
  rows: {
    link: string;
    system: string;
    tokens: number;
    /** Speed over that of another server; null: its own. */
    overNone: Ratio | null;
    overLru: Ratio | null;
  }[];
}
type Ratio = Pick<Interval, 'mean' | 'low' | 'high'>;

/** Of bench/results/look-ahead*.json: a row for each budget and number of layers, 0 first and again last. */
interface LookedAhead extends Recorded {
  model: string;
  linkBandwidth: string | null;
  requests: number;
  rows: {
    budget: string;
    layers: number;
    /** Time over that of the budget's first row, less 1. */
    slower: Interval | null;
    seconds: number;
    bytes: number;
  }[];
}

export interface DecodeResults {
  /** Of every simulated link that was measured. */
  lookAhead?: readonly LookedAhead[] | undefined;
  /** Of every model that was measured. */
  governed?: readonly Governed[] | undefined;
  decodeSystems?: DecodeSystems | undefined;
}

export function decodeTargets({ lookAhead = [], governed = [], decodeSystems }: DecodeResults): TargetRow[] {
  return [
    gainTarget(decodeSystems),
    governedTarget(governed, decodeSystems),
    ...lookAheadTargets(lookAhead),
    DRAFTS,
  ];
}

const DECODE_SYSTEMS = 'node bench/scripts/decode-systems/decode-systems.mjs';
const UNMEASURED = { figure: DASH, verdict: NOT_MEASURED, inputs: DASH, control: DASH } as const;

const interval = ({ mean, low, high }: Ratio, show: (value: number) => string) =>
  `${show(mean)} (${show(low)} to ${show(high)})`;

function gainTarget(found: DecodeSystems | undefined): TargetRow {
  const worth = percent(WORTH, 0);
  const row = {
    target: 'P8',
    what: `decoding: tokens a second that the defaults gain over LRU, of what true tables gain where that is at least ${worth}`,
    limit: '≥ 70 %',
    command: recorded(DECODE_SYSTEMS, found === undefined ? [] : [found]),
  };
  if (found === undefined) return { ...row, ...UNMEASURED };
  const links = [...new Set(found.rows.map(({ link }) => link))];
  const over = (link: string, system: string) =>
    found.rows.find((own) => own.link === link && own.system === system)?.overLru;
  const rows = links.flatMap((link) => {
    const [own, none, most] = ['defaults', 'none', 'true tables'].map((system) => over(link, system));
    if (!own || !none || !most || most.mean < 1 + WORTH) return [];
    return [{ link, own, none, most, share: (of: Ratio) => (of.mean - 1) / (most.mean - 1) }];
  });
  if (rows.length === 0) {
    const gains = links
      .flatMap((link) => over(link, 'true tables') ?? [])
      .map((most) => interval(most, times));
    const figure = `–; true tables themselves gain too little, ${gains.join(', ')} of LRU`;
    return { ...row, figure, verdict: CANNOT_TELL, inputs: tokensOf(found), control: DASH };
  }
  return {
    ...row,
    figure: rows
      .map(
        ({ link, own, most, share }) =>
          `${found.model}, ${link}: ${percent(share(own), 0)} (${interval(own, times)} of LRU, true tables ${interval(most, times)})`,
      )
      .join('; '),
    verdict: judged(
      rows.map(({ own, share }) => share(own)),
      (value) => value >= 0.7,
    ),
    inputs: tokensOf(found),
    control: `none: ${rows.map(({ link, none, share }) => `${link} ${percent(share(none), 0)}`).join(', ')}`,
  };
}

const tokensOf = ({ rows }: DecodeSystems) => `${rows[0]!.tokens} tokens`;

/** Time over that of `none`, less 1, of a row whose speeds are known. */
function slower({ mean, low, high }: Ratio): Ratio {
  return { mean: 1 / mean - 1, low: 1 / high - 1, high: 1 / low - 1 };
}

interface Cell {
  name: string;
  defaults: Ratio;
  ungoverned: Ratio | undefined;
  again: Ratio | undefined;
}

function decodeCells(found: DecodeSystems): Cell[] {
  return found.rows.flatMap(({ link, system, overNone }) => {
    if (system !== 'defaults' || overNone === null) return [];
    const beside = (name: string) => {
      const other = found.rows.find((own) => own.link === link && own.system === name)?.overNone;
      return other ? slower(other) : undefined;
    };
    const name = `${found.model} with padded experts ${found.budget}, ${link}`;
    return [
      { name, defaults: slower(overNone), ungoverned: beside('ungoverned'), again: beside('none, again') },
    ];
  });
}

function governedTarget(results: readonly Governed[], decodes: DecodeSystems | undefined): TargetRow {
  const row = {
    target: 'P17',
    what: 'time of a request, or of a generated token, with the defaults over that with `--predictor none`, and its 95 % interval over starts of the servers',
    limit: 'interval reaches 1.00×, in every cell of a grid',
    command: recorded(
      'node bench/scripts/governor/governor.mjs --model models/switch-words --task category',
      [...results, ...(decodes === undefined ? [] : [decodes])],
    ),
  };
  const cells: Cell[] = [
    ...results.flatMap(({ model, linkBandwidth, clients = 1, rows }) => {
      const conditions = [linkBandwidth ?? 'disk', ...(clients > 1 ? [`${clients} requests at a time`] : [])];
      return rows.map((own) => ({ name: `${model} ${own.budget}, ${conditions.join(', ')}`, ...own }));
    }),
    ...(decodes === undefined ? [] : decodeCells(decodes)),
  ];
  if (cells.length === 0) return { ...row, ...UNMEASURED };
  const shown = (key: 'defaults' | 'ungoverned' | 'again') =>
    cells
      .flatMap(({ name, [key]: found }) =>
        found === undefined ? [] : [`${name} ${interval(found, (value) => times(1 + value))}`],
      )
      .join('; ');
  const requests = [...new Set(results.flatMap(({ rows }) => rows.map(({ requests }) => requests)))];
  return {
    ...row,
    figure: shown('defaults'),
    verdict: judged(
      cells.map(({ defaults }) => defaults.low),
      (surely) => surely <= 0,
    ),
    inputs: [...requests.map(String), ...(decodes === undefined ? [] : [tokensOf(decodes)])].join(', '),
    control: `none again: ${shown('again')}; without the governor: ${shown('ungoverned')}`,
  };
}

/** A link that carries nothing for this share of the time has room for what is named ahead. */
const IDLE = 0.2;
/** Layers ahead that the target's rows name. */
const LAYERS = 2;

function lookAheadTargets(results: readonly LookedAhead[]): TargetRow[] {
  const command = recorded(
    'node bench/scripts/look-ahead/look-ahead.mjs --model DIR --host-budget 100% --link-bandwidth 2GB/s --out look-ahead-link',
    results,
  );
  const rows = results.flatMap(({ model, linkBandwidth, requests, rows: own }) =>
    own.flatMap(({ budget, layers, slower: found }) => {
      const without = own.find((other) => other.budget === budget && other.layers === 0);
      const bandwidth = parseBytes((linkBandwidth ?? '').replace(/\/s$/, ''));
      if (found === null || without === undefined || bandwidth === undefined) return [];
      const idle = 1 - without.bytes / bandwidth / without.seconds;
      return [{ name: `${model} ${budget}, ${linkBandwidth}`, layers, idle, requests, slower: found }];
    }),
  );
  const kinds = [
    {
      what: `time saved where the link idles a fifth of the time or more`,
      limit: '≥ 9 %',
      is: (idle: number) => idle >= IDLE,
      within: (found: Ratio) => -found.mean >= 0.09,
    },
    {
      what: 'time lost where it idles less',
      limit: 'not measurably (95 %)',
      is: (idle: number) => idle < IDLE,
      within: (found: Ratio) => found.low <= 0,
    },
  ];
  return kinds.map(({ what, limit, is, within }): TargetRow => {
    const row = {
      target: 'P22',
      what: `look-ahead in decode over a simulated link, ${LAYERS} layers named: ${what}; by pairs of blocks`,
      limit,
      command,
    };
    const own = rows.filter(({ idle }) => is(idle));
    const ahead = own.filter(({ layers }) => layers === LAYERS);
    if (ahead.length === 0) return { ...row, ...UNMEASURED };
    const saved = ({ mean, low, high }: Ratio) =>
      interval({ mean: -mean, low: -high, high: -low }, (value) => percent(value));
    return {
      ...row,
      figure: ahead
        .map(({ name, idle, slower: found }) => `${name}, idle ${percent(idle, 0)}: ${saved(found)} saved`)
        .join('; '),
      verdict: judged(
        ahead.map(({ slower: found }) => (within(found) ? 1 : 0)),
        (value) => value === 1,
      ),
      inputs: [...new Set(ahead.map(({ requests }) => requests))].join(', '),
      control: `without, again: ${own
        .filter(({ layers }) => layers === 0)
        .map(({ name, slower: found }) => `${name} ${saved(found)}`)
        .join('; ')}`,
    };
  });
}

/** The mechanism is deleted, and its script with it: the figures are those of bench/notes/tried.md. */
const DRAFTS: TargetRow = {
  target: 'P23',
  what: 'time of a token with drafts of 4 and of 8 from the text so far, starved of memory, where 75 % of them hold; without a predictor',
  limit: '≤ 0.85×',
  figure: [
    'olmoe-mini with padded experts 25 %, disk: nouns 1.06× (1.00× to 1.12×), 0.97× (0.91× to 1.03×)',
    'WikiText-2 three times 0.92× (0.85× to 0.98×), 0.97× (0.88× to 1.07×)',
    'deleted, bench/notes/tried.md',
  ].join('; '),
  verdict: 'missed',
  inputs: '62, 40 drafted tokens',
  control: 'without, again: nouns 1.00× (0.96× to 1.04×); WikiText-2 0.96× (0.89× to 1.03×)',
  command: DASH,
};
