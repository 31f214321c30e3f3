(()=>{const seen=document.currentScript.dataset.revision,mark=seen+" "+location.href;let waits,over=false;
try{if(sessionStorage.svcReload===mark)return}catch{}
window.svcReload?.();window.svcReload=()=>{over=true;waits?.abort()};
const wait=async()=>{if(over||waits||document.hidden)return;waits=new AbortController();let pause=500;try{const reply=await fetch("/.svc/changes?since="+seen,{cache:"no-store",signal:waits.signal});
if(reply.status===200){over=true;try{sessionStorage.svcReload=mark}catch{}location.reload();return}if(reply.status===204)pause=0}catch{}waits=undefined;setTimeout(wait,pause)};
document.addEventListener("visibilitychange",()=>document.hidden?waits?.abort():wait());wait()})()