/**
 * A tree of KV pages by the token ids of whole pages: a page's path from its root spells all tokens up to its end.
 * Every leaf has a sequence that keeps it and the pages before it. A leaf may be a page that is not full, the tail of a
 * sequence.
 */

/** A page of the tree. */
export interface PageNode {
  /** The page before it; null at a root, which is no page. */
  readonly parent: PageNode | null;
  readonly key: string;
  /** Pages up to this one. */
  readonly depth: number;
  readonly children: Map<string, PageNode>;
  /** The pages behind it that are not full, which are children too. */
  readonly tails: Map<PageNode, Int32Array>;
  /** Running requests that use this page, or a page behind it. */
  users: number;
  lastUse: number;
  /** The sequence that keeps the page if it is a leaf. */
  keeper: number;
}

/** A leaf that was taken off the tree. `parent` is a leaf now if it has no other children, and keeps `keeper`. */
export interface RemovedLeaf {
  keeper: number;
  parent: PageNode;
  page: PageNode;
}

interface AddedPages {
  added: number;
  node: PageNode | null;
  freed?: number;
}

const NO_KEEPER = -1;

export class PrefixTree {
  readonly #pageTokens: number;
  readonly #roots = new Map<string, PageNode>();
  readonly #leaves = new Set<PageNode>();
  #pages = 0;
  #unused = 0;
  #clock = 0;

  constructor(pageTokens: number) {
    this.#pageTokens = pageTokens;
  }

  get pages(): number {
    return this.#pages;
  }

  /** Pages that no running request uses. */
  get unused(): number {
    return this.#unused;
  }

  /** The last page of the longest known beginning of `tokens`, of at most `pages` pages; null if none is known. */
  find(scope: string, tokens: Int32Array, pages: number): PageNode | null {
    let node = this.#roots.get(scope);
    if (node === undefined) return null;
    while (node.depth < pages) {
      const next: PageNode | undefined = node.children.get(this.#key(tokens, node.depth));
      if (next === undefined) break;
      node = next;
    }
    return node.depth > 0 ? node : null;
  }

  /** A sequence that keeps the page. */
  keeperOf(node: PageNode): number {
    let leaf = node;
    for (let next = first(leaf); next !== undefined; next = first(leaf)) leaf = next;
    return leaf.keeper;
  }

  /** The tail behind a full page that agrees longest with `tokens`, and how many tokens the two share. */
  tailOf(node: PageNode, tokens: Int32Array): { tail: PageNode | null; shared: number } {
    let longest: { tail: PageNode | null; shared: number } = { tail: null, shared: 0 };
    for (const [tail, ids] of node.tails) {
      const begin = node.depth * this.#pageTokens;
      // The last token of a prompt is always computed.
      const most = Math.min(ids.length, tokens.length - 1 - begin);
      let shared = 0;
      while (shared < most && ids[shared] === tokens[begin + shared]) shared += 1;
      if (shared > longest.shared) longest = { tail, shared };
    }
    return longest;
  }

  /** The last page of `tokens`, full or not, if all their pages are known. `node` is their last full page. */
  lastOf(node: PageNode, tokens: Int32Array): PageNode | undefined {
    return tokens.length % this.#pageTokens === 0 ? node : node.children.get(this.#key(tokens, node.depth));
  }

  /**
   * Adds what is missing of the pages of `tokens`, which `keeper` keeps from now on. At least one must be missing; the
   * last one need not be full. Returns how many were missing, the last full page, and the sequence that is not needed
   * any more, if there is one.
   */
  add(scope: string, tokens: Int32Array, keeper: number): AddedPages {
    const pages = Math.floor(tokens.length / this.#pageTokens);
    const known = this.find(scope, tokens, pages) ?? this.#root(scope);
    const freed = this.#leaves.delete(known) ? known.keeper : undefined;
    known.keeper = NO_KEEPER;
    let node = known;
    while (node.depth < pages) node = this.#grow(node, tokens);
    const leaf = tokens.length % this.#pageTokens === 0 ? node : this.#grow(node, tokens);
    if (leaf !== node) node.tails.set(leaf, tokens.slice(pages * this.#pageTokens));
    leaf.keeper = keeper;
    this.#leaves.add(leaf);
    this.touch(leaf);
    const added = leaf.depth - known.depth;
    return { added, node: node.depth > 0 ? node : null, ...(freed !== undefined && { freed }) };
  }

  touch(node: PageNode): void {
    this.#clock += 1;
    for (const page of pathTo(node)) page.lastUse = this.#clock;
  }

  /** The page and those before it stay until the same number of `leave` calls. */
  use(node: PageNode): void {
    this.touch(node);
    for (const page of pathTo(node)) {
      if (page.users === 0) this.#unused -= 1;
      page.users += 1;
    }
  }

  leave(node: PageNode): void {
    for (const page of pathTo(node)) {
      page.users -= 1;
      if (page.users === 0) this.#unused += 1;
    }
  }

  /** Removes up to `most` pages that no running request uses, one by one the leaf that was used least recently. */
  removeLeaves(most: number): RemovedLeaf[] {
    const unused = [...this.#leaves].filter(({ users }) => users === 0);
    // The oldest is last. One alone is found faster without an order.
    if (most === 1) oldestLast(unused);
    else unused.sort((a, b) => b.lastUse - a.lastUse);
    const removed: RemovedLeaf[] = [];
    while (removed.length < most) {
      const oldest = unused.pop();
      if (oldest === undefined) break;
      const leaf = this.remove(oldest);
      const { parent } = leaf;
      removed.push(leaf);
      if (this.#leaves.has(parent) && parent.users === 0) unused.splice(placeOf(parent, unused), 0, parent);
    }
    return removed;
  }

  /** Removes a leaf that no running request uses. Its parent keeps its keeper if it is a leaf now. */
  remove(leaf: PageNode): RemovedLeaf {
    const { keeper, key } = leaf;
    const parent = leaf.parent!;
    this.#leaves.delete(leaf);
    parent.children.delete(key);
    parent.tails.delete(leaf);
    this.#pages -= 1;
    this.#unused -= 1;
    if (parent.children.size > 0) return { keeper, parent, page: leaf };
    if (parent.parent === null) this.#roots.delete(parent.key);
    else {
      parent.keeper = keeper;
      this.#leaves.add(parent);
    }
    return { keeper, parent, page: leaf };
  }

  #root(scope: string): PageNode {
    const found = this.#roots.get(scope);
    if (found !== undefined) return found;
    const root = newNode(null, scope);
    this.#roots.set(scope, root);
    return root;
  }

  #grow(node: PageNode, tokens: Int32Array): PageNode {
    const child = newNode(node, this.#key(tokens, node.depth));
    node.children.set(child.key, child);
    this.#pages += 1;
    this.#unused += 1;
    return child;
  }

  #key(tokens: Int32Array, page: number): string {
    return tokens.subarray(page * this.#pageTokens, (page + 1) * this.#pageTokens).join();
  }
}

/** Whether the page is not full. */
export function isTail(page: PageNode): boolean {
  return page.parent?.tails.has(page) ?? false;
}

function newNode(parent: PageNode | null, key: string): PageNode {
  const depth = parent === null ? 0 : parent.depth + 1;
  return {
    parent,
    key,
    depth,
    children: new Map(),
    tails: new Map(),
    users: 0,
    lastUse: 0,
    keeper: NO_KEEPER,
  };
}

/** Swaps the leaf that was used least recently to the end. */
function oldestLast(leaves: PageNode[]): void {
  const last = leaves.length - 1;
  let oldest = last;
  for (let at = 0; at < last; at += 1) if (leaves[at]!.lastUse < leaves[oldest]!.lastUse) oldest = at;
  if (last >= 0) [leaves[oldest], leaves[last]] = [leaves[last]!, leaves[oldest]!];
}

/** Where the leaf belongs among leaves of which the oldest is last. */
function placeOf({ lastUse }: PageNode, leaves: readonly PageNode[]): number {
  let [begin, end] = [0, leaves.length];
  while (begin < end) {
    const middle = (begin + end) >> 1;
    if (leaves[middle]!.lastUse > lastUse) begin = middle + 1;
    else end = middle;
  }
  return begin;
}

function first({ children }: PageNode): PageNode | undefined {
  return children.values().next().value;
}

/** The page and those before it, the last one first. */
function* pathTo(node: PageNode): Generator<PageNode> {
  for (let page = node; page.parent !== null; page = page.parent) yield page;
}
