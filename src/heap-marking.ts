/**
 * A V8 flag for processes that serve. Threads that mark the heap beside the main thread take cores from the passes and
 * the tokenizer: beside bodies of 1 MB, on two cores, small requests waited 1.5 times as long (F38).
 */
export const MARK_ALONE = '--no-concurrent-marking';
