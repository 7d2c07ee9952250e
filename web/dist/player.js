import"./chunk-5647VRCP.js";import"./chunk-CAB5JLCJ.js";import"./chunk-KVZGKNO3.js";
