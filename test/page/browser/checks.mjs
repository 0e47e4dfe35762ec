import { runAll } from "./harness.mjs";
import "./pages.mjs";
import "./timeline.mjs";
import "./time.mjs";
import "./listing.mjs";
import "./details.mjs";
import "./compare.mjs";
import "./raw.mjs";
import "./markdown.mjs";
import "./reading.mjs";
import "./states.mjs";
import "./accessibility.mjs";
import "./stories.mjs";
import "./load.mjs";

await runAll();
