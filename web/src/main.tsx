import { render } from "preact";
import { App } from "./app";
import "./style/base.css";
import "./style/pages.css";
import "./style/trajectory.css";
import "./style/details.css";
import "./style/content.css";

const root = document.getElementById("app");
if (root) render(<App />, root);
