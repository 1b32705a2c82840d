// What a server did between two reads of its metrics, and what its governors found.

export function countersSince(now, before) {
  const of = (name) => (now.get(name) ?? 0) - (before.get(name) ?? 0);
  const found = (how) => of(`sida_experts_found_total{found="${how}"}`);
  return {
    slots: now.get('sida_device_slots'),
    passes: of('sida_passes_total'),
    seconds: of('sida_pass_seconds_total'),
    stallSeconds: of('sida_experts_stall_seconds_total'),
    needed: of('sida_experts_needed_total'),
    resident: found('resident'),
    prefetched: found('prefetched'),
    late: found('late'),
    onDemand: found('on_demand'),
    foreseen: of('sida_prefetches_foreseen_total'),
    wasted: of('sida_prefetches_wasted_total'),
    bytes: of('sida_experts_moved_bytes_total'),
    predicted: of('sida_predictor_routings_total'),
  };
}

/** The states of both governors, and what their latest looks say that prediction saves. */
export async function governorsOf({ url }) {
  const {
    function: tables,
    state,
    gain,
    look_ahead: layers,
  } = await (await fetch(`${url}/admin/predictor`)).json();
  return { function: tables, tables: { state, gain }, layers: { state: layers.state, gain: layers.gain } };
}
