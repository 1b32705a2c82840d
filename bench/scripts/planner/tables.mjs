// What planning costs a decode step.
import { result, source, table } from '../table-format.mjs';

const ms = (value) => value.toFixed(2);

export const plannerTables = {
  planner: () => {
    const r = result('planner');
    const rows = r.rows.map(({ cache, slots, tables, loads, snapshot, plan, victims, learn }) => [
      `${cache} (${slots})`,
      tables ? 'with tables' : 'without',
      loads.toFixed(0),
      ...[snapshot, plan, victims, learn, snapshot + plan + victims + learn].map(ms),
    ]);
    const head = [
      'experts in memory',
      'tables',
      'loads a step',
      'snapshot',
      'plan',
      'victims',
      'learning',
      'all, ms',
    ];
    const needs = r.needsPerStep.toFixed(0);
    const about = [
      `${r.model}: ${r.layers} layers, ${r.experts} experts, ${needs} needed a step;`,
      `medians of ${r.steps} steps and ${r.rounds} rounds.`,
    ].join(' ');
    return `${table(head, rows)}\n\n${about}\n\n${source(r)}`;
  },
};
