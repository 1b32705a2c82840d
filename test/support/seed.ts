// Property tests draw the same cases in each run, which can be repeated; SIDA_TEST_SEED=random draws others.
import fc from 'fast-check';

const { SIDA_TEST_SEED: given = '1' } = process.env;
fc.configureGlobal({ seed: given === 'random' ? Date.now() : Number(given) });
