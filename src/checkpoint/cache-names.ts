/** Names of the directories in a cache of packs. */
import { randomBytes } from 'node:crypto';

/** `<model>-<element types>-<16 digits of the weights>-<16 digits of the texts>`, as prepare-pack.ts makes them. */
const PACK = /^.+-[0-9a-f]{16}-[0-9a-f]{16}$/;
/** Endings of directories in which packs are made or exchanged. */
const UNFINISHED = /(\.(partial|next|replaced))+$/;
const REMOVED = /\.removed-[0-9a-f]{16}$/;

/** Whether the directory is no pack to open: one that is being made, exchanged or removed. */
export function isTemporary(name: string): boolean {
  return UNFINISHED.test(name) || REMOVED.test(name);
}

/** The name of the pack that a conversion of the cache makes in the directory `name`. Undefined for any other name. */
export function unfinishedPack(name: string): string | undefined {
  const pack = name.replace(UNFINISHED, '');
  return pack !== name && PACK.test(pack) ? pack : undefined;
}

/** A pack is renamed before its files are removed, so that nobody opens half of it. */
export function removedName(name: string): string {
  return `${name}.removed-${randomBytes(8).toString('hex')}`;
}

export function isRemoved(name: string): boolean {
  return REMOVED.test(name);
}

/** Names of the locks under which processes make the cached pack `pack`, without `.lock`. */
export function locksOf(pack: string): string[] {
  // One of them begins with the element types. The model's name may hold dashes too, so each end may be that one.
  const parts = pack.split('-').slice(0, -1);
  return [pack, ...parts.slice(1).map((_, i) => parts.slice(i + 1).join('-'))];
}
