/** Measures how KV pages and experts share the device. */
import { type Engine, RESIDENT } from '../native/addon-types.js';
import type { MemorySplit } from '../protocol/memory-split.js';

/** `cachedPages` are those of the prefix cache that no running input uses. */
export function memorySplit(engine: Engine, cachedPages: number): MemorySplit {
  const { shape, plan } = engine;
  const { kvPages, kvPagesFree, kvPageBytes, kvWindows, slots } = engine.usage();
  const groups = [{ pages: kvPages, pagesFree: kvPagesFree, pageBytes: kvPageBytes }, ...kvWindows];
  const bytes = (pages: (group: (typeof groups)[number]) => number) =>
    groups.reduce((sum, group) => sum + pages(group) * group.pageBytes, 0);
  const free = bytes(({ pagesFree }) => pagesFree);
  // The prefix cache keeps nothing of models with windows.
  const cached = cachedPages * kvPageBytes;
  // A slot takes whole pages of the device, and so does the expert in it.
  const pages = plan.slot / plan.block;
  let resident = 0;
  engine.residency().state.forEach((state, id) => {
    if (state === RESIDENT) resident += plan.blockBytes[Math.floor(id / shape.experts)]! * pages;
  });
  return {
    kv: { used: bytes(({ pages }) => pages) - free - cached, cached, free },
    experts: { slots: slots * plan.slot, resident },
  };
}
