/**
 * V8 flags for processes that serve. Beside bodies of 1 MB on two cores, small requests wait for the heap:
 * threads that mark it beside the main thread take cores from the passes and the tokenizer, and V8 would collect all of
 * a small heap at each such body.
 */
export const HEAP_FLAGS = ['--no-concurrent-marking', '--heap-growing-percent=200'];
